# SPDX-License-Identifier: Apache-2.0
"""The rules of the house that a program can check. Each returns complaints as "path:line: text"."""
import ast
import os
import re

SOURCE_LINES_MAX = 400
HEADER_LINES_MAX = 150
FUNCTION_LINES_MAX = 70
COLUMNS_MAX = 100
FILE_BYTES_MAX = 1_000_000

SKIPPED_FOLDERS = {".git", "__pycache__", ".pytest_cache", "dist"}
CPP_SOURCES = (".cc", ".c", ".cu")
CPP_HEADERS = (".h", ".hpp", ".cuh")
CODE = CPP_SOURCES + CPP_HEADERS + (".py", ".sh", ".fbs", ".cmake", "CMakeLists.txt")

# Spelled in halves so that this file keeps to its own rule.
FORBIDDEN_WORDS = re.compile(
    r"\b(TO" r"DO|FIX" r"ME|XX" r"X|(?i:place" r"holder|not imple" r"mented|for" r" now))\b"
    r"|\b(?i:stub(bed)? (out|for)|the is" r"sue)\b")
FORBIDDEN_PATHS = re.compile(
    r"(?<![\w$}/])/(wo" r"rk|ro" r"ot|fa" r"rm)/|/tmp/pr" r"ep|\.\./sha" r"red")
SLEEPS = re.compile(r"\b(sleep_for|sleep_until|usleep|nanosleep)\b|\btime\.sleep\b")
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]')
CUDA_HEADERS = re.compile(r"^(cuda|cu_?blas|nvml|nvrtc|cuda_runtime|driver_types)[\w/]*\.h")
EFFECTS = re.compile(
    r"^(thread|mutex|shared_mutex|condition_variable|future|chrono|fstream|filesystem|ctime|time\.h"
    r"|sys/(?!types\.h).*|unistd\.h|fcntl\.h|poll\.h|pthread\.h|netinet/.*|dirent\.h)$")


def walk(root):
    """All files under root as relative paths, build folders and caches left out."""
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(f for f in folders
                            if f not in SKIPPED_FOLDERS and not f.startswith("build"))
        for name in sorted(files):
            path = os.path.relpath(os.path.join(folder, name), root)
            if not os.path.islink(os.path.join(root, path)):
                yield path


def forbidden_include(path, header):
    """Why this file may not include that header, or None. The layers of ARCHITECTURE.md."""
    in_daemon = header.startswith("sidecar/")
    if path.startswith("ipc/") and (in_daemon or header.startswith("clients/")):
        return "ipc stands under both sides and includes neither sidecar nor clients"
    if path.startswith("clients/") and in_daemon:
        return "clients see the daemon only through ipc"
    if path.startswith("sidecar/") and header.startswith("clients/"):
        return "the daemon doesn't know its clients' code"
    if CUDA_HEADERS.match(header) and not path.startswith(("sidecar/device/cuda", "kernels/")):
        return "CUDA headers belong to sidecar/device/cuda* and kernels/"
    if "hf3fs" in header and not path.startswith("sidecar/store/usrbio"):
        return "USRBIO declarations belong to sidecar/store/usrbio*"
    if re.search(r"hiredis|redis", header) and not path.startswith("sidecar/cluster/redis"):
        return "Redis belongs to sidecar/cluster/redis*"
    if path.startswith(("sidecar/index/", "sidecar/pool/host_pool", "sidecar/pool/span",
                        "sidecar/pool/slot")) and EFFECTS.match(header):
        return "index and host pool know no threads, clocks, files or sockets"
    return None


def check_includes(path, lines):
    if not path.endswith(CPP_SOURCES + CPP_HEADERS) or path.startswith("tests/"):
        return
    for number, line in enumerate(lines, 1):
        found = INCLUDE.match(line)
        reason = forbidden_include(path, found.group(1)) if found else None
        if reason:
            yield f"{path}:{number}: includes {found.group(1)}: {reason}"


def check_threads(path, lines):
    """No mutex in the daemon outside logs and metrics; no fence weaker than seq_cst anywhere."""
    if not path.endswith(CPP_SOURCES + CPP_HEADERS):
        return
    for number, line in enumerate(lines, 1):
        code = line.split("//")[0]
        if path.startswith("sidecar/") and not re.search(r"/(log|metric)\w*\.", path):
            if re.search(r"std::(\w+_)?mutex|pthread_mutex|std::lock_guard", code):
                yield f"{path}:{number}: a mutex outside logs and metrics: state has one owner"
        if "atomic_thread_fence" in code and "seq_cst" not in code:
            yield f"{path}:{number}: a bare fence: use acquire and release on the atomic itself"


def check_text(path, lines):
    for number, line in enumerate(lines, 1):
        where = f"{path}:{number}"
        if path.endswith(CODE) and len(line) > COLUMNS_MAX and not INCLUDE.match(line):
            if not (path.endswith(("CMakeLists.txt", ".cmake", ".fbs")) or "http" in line):
                yield f"{where}: {len(line)} columns, at most {COLUMNS_MAX}"
        if path.endswith(CPP_SOURCES + CPP_HEADERS + (".py", ".sh")) and "\t" in line:
            yield f"{where}: a tab"
        if line != line.rstrip():
            yield f"{where}: space at the end of the line"
        if path == "LICENSE":
            continue
        word = FORBIDDEN_WORDS.search(line)
        if word:
            yield f"{where}: '{word.group(0)}': finish it, or say what is so"
        if FORBIDDEN_PATHS.search(line) and path != ".ci/run":
            yield f"{where}: a path of one machine"
        in_test = path.startswith("tests/") and not path.startswith("tests/style/")
        if in_test and SLEEPS.search(line):
            yield f"{where}: a sleep in a test: wait for the event, or bring time in"


def check_head(path, lines):
    if path.endswith(CODE) or path in (".ci/run",):
        if not any("SPDX-License-Identifier: Apache-2.0" in line for line in lines[:3]):
            yield f"{path}:1: the SPDX line is missing"


def check_size(path, lines, size_bytes):
    if size_bytes > FILE_BYTES_MAX:
        yield f"{path}:1: {size_bytes} bytes, at most {FILE_BYTES_MAX}"
    for endings, most in ((CPP_SOURCES + (".py", ".sh"), SOURCE_LINES_MAX),
                          (CPP_HEADERS, HEADER_LINES_MAX)):
        if path.endswith(endings) and len(lines) > most:
            yield f"{path}:1: {len(lines)} lines, at most {most}: split it by responsibility"


def check_name(path):
    if path.endswith(CPP_SOURCES + CPP_HEADERS + (".py",)):
        name = os.path.basename(path)
        if not re.fullmatch(r"[a-z0-9_]+\.[a-z]+", name):
            yield f"{path}:1: file names are snake_case"


def blank_literals(text):
    """The text with comments, strings and characters blanked out; lines stay where they are."""
    pattern = re.compile(
        r'//[^\n]*|/\*.*?\*/|R"([^(\s]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"'
        r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'",
        re.DOTALL)
    return pattern.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)), text)


def cpp_functions(text):
    """(first line, last line) of each function body in a C++ file, by its braces."""
    text = re.sub(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", lambda m: re.sub(r"[^\n]", " ", m.group(0)),
                  blank_literals(text), flags=re.MULTILINE)
    stack, functions, head_start = [], [], 0
    for at, char in enumerate(text):
        if char == "{":
            head = text[head_start:at]
            kind = scope_kind(head, stack[-1][0] if stack else "namespace")
            first = text.count("\n", 0, head_start + len(head) - len(head.lstrip())) + 1
            stack.append((kind, first))
        elif char == "}" and stack:
            kind, first = stack.pop()
            if kind == "function":
                functions.append((first, text.count("\n", 0, at) + 1))
        if char in "{};":
            head_start = at + 1
    return functions


def scope_kind(head, enclosing):
    if enclosing in ("function", "block"):
        return "block"
    if re.search(r"\bnamespace\b|\bextern\s*$", head):
        return "namespace"
    if "(" in head:
        return "function"
    return "type" if re.search(r"\b(class|struct|union|enum)\b", head) else "block"


def check_functions(path, text):
    if path.endswith(CPP_SOURCES + CPP_HEADERS):
        functions = cpp_functions(text)
    elif path.endswith(".py"):
        functions = [(node.lineno, node.end_lineno) for node in ast.walk(ast.parse(text))
                     if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    else:
        return
    for first, last in functions:
        if last - first + 1 > FUNCTION_LINES_MAX:
            length = last - first + 1
            yield f"{path}:{first}: a function of {length} lines, at most {FUNCTION_LINES_MAX}"


def complaints(path, data):
    """Everything that the rules have against one file."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = ""
    lines = text.splitlines()
    found = list(check_name(path)) + list(check_head(path, lines))
    found += check_size(path, lines, len(data))
    found += list(check_text(path, lines)) + list(check_includes(path, lines))
    found += list(check_threads(path, lines)) + list(check_functions(path, text))
    return found
