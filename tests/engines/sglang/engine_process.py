# SPDX-License-Identifier: Apache-2.0
"""The process of an engine of engine.py: one sglang.Engine, which does what it is told.

Commands and answers are lines of JSON over a socket; whatever SGLang prints goes to this process's
log. Each command is a method of Host. Requests go on between commands: the scheduler is a process
of its own.
"""
import asyncio
import json
import os
import sys
import traceback

from engine_weights import WeightCommands


class Host(WeightCommands):
    def __init__(self):
        self.engine = None
        self.running = {}  # request: task
        self.sent = set()  # requests that the scheduler has got

    # Life.

    def start(self, flags):
        """The engine's processes: {"schedulers": [pid…]}."""
        import sglang
        self.engine = sglang.Engine(**flags)
        send = self.manager._send_one_request

        async def send_and_note(request):
            await send(request)
            self.sent.add(request.rid)

        self.manager._send_one_request = send_and_note
        return {"schedulers": self.engine.get_all_child_pids()}

    def stop(self):
        if self.engine is not None:
            self.engine.shutdown()
            self.engine = None
        return True

    @property
    def manager(self):
        return self.engine.tokenizer_manager

    def until(self, coroutine):
        return self.engine.loop.run_until_complete(coroutine)

    # Requests.

    def submit(self, requests, sampling):
        """{request: prompt}; they are with the scheduler afterwards."""
        async def submit_all():
            for request, prompt in requests.items():
                self.running[request] = asyncio.ensure_future(
                    self._answer(request, prompt, sampling))
            while not self.sent.issuperset(requests):
                early = [request for request in requests if self.running[request].done()
                         and request not in self.sent]
                if early:  # refused before it was sent
                    break
                await asyncio.sleep(0)

        self.until(submit_all())
        return True

    async def _answer(self, request, prompt, sampling):
        try:
            answer = await self.engine.async_generate(
                input_ids=prompt, return_logprob=True, rid=request,
                sampling_params={"temperature": 0, "ignore_eos": True, **sampling})
        except Exception as error:  # of this request alone
            return {"ids": [], "logprobs": [], "cached": 0, "sources": {},
                    "reason": f"{type(error).__name__}: {error}"}
        meta = answer["meta_info"]
        return {"ids": answer["output_ids"],
                "logprobs": [entry[0] for entry in meta.get("output_token_logprobs") or ()],
                "cached": meta["cached_tokens"], "sources": meta["cached_tokens_details"] or {},
                "reason": meta["finish_reason"]["type"]}

    def collect(self, requests):
        """Their answers in this order, as soon as there is each."""
        async def collect_all():
            return await asyncio.gather(*(self.running.pop(request) for request in requests))

        return self.until(collect_all())

    def abort(self, requests):
        async def abort_all():
            for request in requests:
                self.manager.abort_request(rid=request)

        self.until(abort_all())
        return True

    # The caches.

    def flush_cache(self):
        return self.engine.flush_cache().success

    def clear_storage(self):
        """Everything in it, by SGLang's own command."""
        return self.until(self.manager.clear_hicache_storage()).success

    def http(self, method, path, body):
        """[status, text] of a route of SGLang's own HTTP server, without a socket."""
        from http_routes import ask
        return self.until(ask(self.engine, method, path, body))

    def server_info(self):
        return json.loads(json.dumps(self.engine.get_server_info(), default=str))


def serve(wire):
    host = Host()
    lines = wire.makefile("rw", encoding="utf-8")
    for line in lines:
        command = json.loads(line)
        try:
            answer = {"value": getattr(host, command["name"])(**command["arguments"])}
        except Exception:
            answer = {"error": traceback.format_exc()}
            sys.stderr.write(answer["error"])
        lines.write(json.dumps(answer) + "\n")
        lines.flush()
    host.stop()
    os._exit(0)  # SGLang's own handlers at exit have nothing left to do
