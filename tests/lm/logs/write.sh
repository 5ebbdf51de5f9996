#!/bin/sh
# Write the example logs anew with the tools themselves, each in an environment of its own: sh tests/lm/logs/write.sh
# Versions that wrote the committed ones: inspect_ai 0.3.285, lm-eval 0.4.13 (torch 2.13.0), edsl 1.0.9.
set -eu
cd "$(dirname "$0")/../../.."
logs=tests/lm/logs
place=$(mktemp -d)
export PYTHONPATH=. PYTHONDONTWRITEBYTECODE=1 HF_HUB_OFFLINE=1 HF_DATASETS_OFFLINE=1
for tool in inspect lm edsl; do python3 -m venv "$place/$tool"; done
"$place/inspect/bin/pip" install --quiet inspect_ai
"$place/lm/bin/pip" install --quiet lm-eval torch==2.13.0
"$place/edsl/bin/pip" install --quiet edsl

python3 -m tests.lm.logs.questions
"$place/inspect/bin/python" -m tests.lm.logs.write_inspect
"$place/edsl/bin/python" -m tests.lm.logs.write_edsl
(cd $logs && "$place/lm/bin/lm-eval" run --model dummy --include_path lm_eval_task --tasks personas,scores \
    --output_path "$place/out" --log_samples)
cp "$place"/out/*/samples_personas_*.jsonl $logs/lm_eval.jsonl
cp "$place"/out/*/samples_scores_*.jsonl $logs/lm_eval_scores.jsonl
python3 -m tests.lm.logs.write_openai_batch    # in the project's own environment: a loopback server, the openai client
rm -r "$place"
