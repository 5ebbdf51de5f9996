"""Write openai_batch_{requests,output,errors}.jsonl with the openai client and the tests' server on loopback."""

from __future__ import annotations

import json
import time
from typing import Any

import openai
from tests.lm.logs.questions import HERE, answer, questions
from tests.servers.openai_server import Server


def main() -> None:
    """Two answers to each request but one, which the server refuses."""
    requests: list[dict[str, Any]] = []
    asked: dict[str, str] = {}
    for number, row in enumerate(questions(), start=1):
        fault = " fault:400" if number == 4 else ""
        asked[f"q{number}"] = row["question"] + fault
        facts = {key: row[key] for key in ("template", "race", "gender")}
        messages = [{"role": "user", "content": row["question"] + fault}]
        body = {"model": "test-model", "messages": messages, "n": 2, "metadata": facts}
        requests.append({"custom_id": f"q{number}", "method": "POST", "url": "/v1/chat/completions", "body": body})
    content = "".join(json.dumps(request) + "\n" for request in requests).encode()
    (HERE / "openai_batch_requests.jsonl").write_bytes(content)
    with Server() as server:
        client = openai.OpenAI(base_url=server.url, api_key="none", max_retries=0)
        file = client.files.create(file=("requests.jsonl", content), purpose="batch")
        batch = client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h")
        while batch.status == "in_progress":
            time.sleep(0.1)
            batch = client.batches.retrieve(batch.id)
        assert batch.output_file_id and batch.error_file_id
        lines = client.files.content(batch.output_file_id).text.splitlines()
        errors = client.files.content(batch.error_file_id).content
    rows = [json.loads(line) for line in sorted(lines)]
    for row in rows:  # the server has one answer for everything, and one choice
        (choice,) = row["response"]["body"]["choices"]
        texts = [answer(asked[row["custom_id"]], draw) for draw in (1, 2)]
        row["response"]["body"]["choices"] = [
            {**choice, "index": index, "message": {**choice["message"], "content": text}}
            for index, text in enumerate(texts)
        ]
    output = "".join(json.dumps(row) + "\n" for row in rows)
    (HERE / "openai_batch_output.jsonl").write_text(output, encoding="utf-8")
    (HERE / "openai_batch_errors.jsonl").write_bytes(errors)


if __name__ == "__main__":
    main()
