"""llama.cpp's OpenAI-compatible server, from the xllamacpp wheel, with a GGUF file: prints its address and serves."""

from __future__ import annotations

import sys
import threading

import xllamacpp

params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.port = 0
params.n_ctx = 1024
params.n_parallel = 2
params.cpuparams.n_threads = 1
params.cpuparams_batch.n_threads = 1
params.n_threads_http = 2
params.warmup = False
params.chat_template = (  # a base model comes with none
    "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}assistant:"
)
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
threading.Event().wait()
