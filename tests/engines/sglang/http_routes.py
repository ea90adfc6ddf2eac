# SPDX-License-Identifier: Apache-2.0
"""The routes of SGLang's own HTTP server over an engine, called as its web server calls them."""
import json
import sys
import types

# What its module imports for routes that no test asks, and the environment doesn't have.
ABSENT = {"jsonschema": ("Draft202012Validator", "SchemaError"), "soundfile": ()}


def _server():
    for name, attributes in ABSENT.items():
        module = types.ModuleType(name)
        for attribute in attributes:
            setattr(module, attribute, type(attribute, (Exception,), {}))
        sys.modules.setdefault(name, module)
    from sglang.srt.entrypoints import http_server
    return http_server


async def ask(engine, method, path, body):
    """[status, text]."""
    http_server = _server()
    http_server.set_global_state(http_server._GlobalState(
        tokenizer_manager=engine.tokenizer_manager, template_manager=engine.template_manager,
        scheduler_info={}))
    told = b"" if body is None else json.dumps(body).encode()
    answer = {"status": None, "text": b""}

    async def receive():
        return {"type": "http.request", "body": told, "more_body": False}

    async def send(message):
        if message["type"] == "http.response.start":
            answer["status"] = message["status"]
        else:
            answer["text"] += message.get("body", b"")

    await http_server.app({
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method,
        "scheme": "http", "path": path, "raw_path": path.encode(), "query_string": b"",
        "headers": [(b"content-type", b"application/json")], "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2), "root_path": "", "extensions": {}}, receive, send)
    return [answer["status"], answer["text"].decode()]
