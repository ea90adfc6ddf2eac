#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Empty stand-ins for the CUDA libraries that PyPI's torch links against and a CPU run never calls.

    stub_cuda_libs.py SITE_PACKAGES

The real ones are 2.7 GB. Each stand-in exports exactly the symbols, with their versions, that the
torch of SITE_PACKAGES wants from that library; every function answers "no device". They lie where
torch's own search path looks first, so that a CUDA toolkit of the machine makes no difference.
"""
import pathlib
import re
import subprocess
import sys

NO_DEVICE = 100  # cudaErrorNoDevice

# Which symbols a library has, by how their names begin. Debian's linker takes what is in no
# library as an error only when it is called, which nothing here does.
LIBRARIES = {
    "libcublas.so.13": r"cublas(?!Lt)",
    "libcublasLt.so.13": r"cublasLt",
    "libcudart.so.13": r"_{0,2}cuda",
    "libcudnn.so.9": r"cudnn",
    "libcufft.so.12": r"cufft",
    "libcufile.so.0": r"cuFile",
    "libcupti.so.13": r"cupti",
    "libcurand.so.10": r"curand",
    "libcusolver.so.12": r"cusolver",
    "libcusparse.so.12": r"cusparse(?!Lt)",
    "libcusparseLt.so.0": r"cusparseLt",
    "libnccl.so.2": r"p?nccl",
    "libnvrtc.so.13": r"nvrtc",
    "libnvshmem_host.so.3": r"nvshmem",
}


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def wanted(torch):
    """What torch's libraries need: the names of libraries, and {symbol: version or ""}."""
    needed, symbols = set(), {}
    for path in [*torch.glob("lib/*.so*"), *torch.glob("_C*.so")]:
        needed.update(re.findall(r"NEEDED.*\[(.*?)\]", output("readelf", "-d", str(path))))
        for line in output("nm", "-D", "--undefined-only", str(path)).splitlines():
            name, _, version = line.split()[-1].partition("@")
            symbols[name] = version.lstrip("@")
    return needed, symbols


def build(path, symbols):
    source = "".join(f"int {name}(void) {{ return {NO_DEVICE}; }}\n" for name in sorted(symbols))
    command = ["gcc", "-shared", "-fPIC", "-w", "-fno-builtin", "-x", "c", "-",
               f"-Wl,-soname,{path.name}", "-o", str(path)]
    versions = sorted({version for version in symbols.values() if version})
    if versions:
        script = path.with_suffix(path.suffix + ".map")
        script.write_text("".join(
            f"{version} {{ global: "
            + " ".join(f"{name};" for name, of in sorted(symbols.items()) if of == version)
            + " };\n" for version in versions))
        command.append(f"-Wl,--version-script={script}")
    subprocess.run(command, input=source, text=True, check=True)


def main():
    site = pathlib.Path(sys.argv[1])
    folder = site / "nvidia/cu13/lib"
    folder.mkdir(parents=True, exist_ok=True)
    needed, symbols = wanted(site / "torch")
    for library, pattern in LIBRARIES.items():
        if library in needed:
            build(folder / library,
                  {name: of for name, of in symbols.items() if re.match(pattern, name)})


if __name__ == "__main__":
    main()
