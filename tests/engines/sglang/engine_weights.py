# SPDX-License-Identifier: Apache-2.0
"""Commands of an engine's process that change its weights while it runs, or put its memory to
sleep."""
import glob
import os


class WeightCommands:
    """Of a Host: its engine, manager and until()."""

    def update_from_disk(self, path, version=None, flush=True):
        """(whether it succeeded, what SGLang says). version: as SGLang calls the new weights."""
        from sglang.srt.managers.io_struct import UpdateWeightFromDiskReqInput
        told = self.until(self.manager.update_weights_from_disk(UpdateWeightFromDiskReqInput(
            model_path=path, weight_version=version, flush_cache=flush), None))
        return list(told)[:2]

    def update_from_tensors(self, path, flush=True):
        """The same with the tensors of a model's folder handed over."""
        from safetensors.torch import load_file
        tensors = [pair for file in glob.glob(os.path.join(path, "*.safetensors"))
                   for pair in load_file(file).items()]
        self.engine.begin_weight_update()
        told = self.engine.update_weights_from_tensor(tensors, flush_cache=flush)
        self.engine.end_weight_update()
        return list(told)[:2]

    def sleep(self):
        self.engine.release_memory_occupation()
        return True

    def wake(self):
        self.engine.resume_memory_occupation()
        return True
