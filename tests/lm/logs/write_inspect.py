"""Write inspect.eval and inspect.json with inspect_ai and its mock model."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from inspect_ai import Task, eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.log import read_eval_log, write_eval_log
from inspect_ai.model import ChatMessage, ModelOutput, ModelUsage, get_model
from inspect_ai.solver import generate
from tests.lm.logs.questions import HERE, answer, questions

EPOCHS = 2
asked: dict[str, int] = {}


def mock(messages: list[ChatMessage], *_: object) -> ModelOutput:
    """Fail at one question, and cut the second draw of another off."""
    prompt = messages[-1].text
    draw = asked[prompt] = asked.get(prompt, 0) + 1
    if prompt == "Introduce yourself as a White man.":
        raise RuntimeError("the server is gone")
    cut = prompt == "Introduce yourself as a Black man." and draw == EPOCHS
    made = ModelOutput.from_content("mockllm/model", answer(prompt, draw), "max_tokens" if cut else "stop")
    made.usage = ModelUsage(input_tokens=9, output_tokens=9, total_tokens=18)
    return made


def main() -> None:
    """One log in both formats of inspect_ai."""
    samples = [
        Sample(
            id=f"q{number}",
            input=row["question"],
            metadata={key: row[key] for key in ("template", "race", "gender")} | {"tags": [row["race"], "adult"]},
        )
        for number, row in enumerate(questions(), start=1)
    ]
    with tempfile.TemporaryDirectory() as folder:
        (log,) = eval(
            Task(dataset=MemoryDataset(samples, name="personas"), solver=generate(), name="personas"),
            model=get_model("mockllm/model", custom_outputs=mock),
            epochs=EPOCHS, log_dir=folder, fail_on_error=False, max_samples=1, display="none", log_model_api=False,
        )  # fmt: skip
        whole = read_eval_log(log.location)
        for sample in whole.samples or []:  # the events repeat everything; tracebacks have paths of this machine
            sample.events, sample.attachments = [], {}
            if sample.error is not None:
                sample.error.traceback = sample.error.traceback_ansi = ""
        whole.eval.revision = None
        for ending in ("eval", "json"):
            write_eval_log(whole, str(Path(folder) / f"personas.{ending}"))
            shutil.copy(Path(folder) / f"personas.{ending}", HERE / f"inspect.{ending}")


if __name__ == "__main__":
    main()
