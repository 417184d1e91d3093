#!/usr/bin/env bash
# Execute every committed notebook with the newest version of each package, without our pins, in an environment of its
# own: what a reader meets on Colab long after a release. data/results/doors.csv says when each one last worked so.
#
#   scripts/doors.sh                      # all notebooks; environment and results in _build/doors
#   scripts/doors.sh five_models theory   # some of them
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$PWD/_build/doors
mkdir -p "$folder/notebooks"
python3 -m venv "$folder/venv"
python=$folder/venv/bin/python
"$python" -m pip install -qq --disable-pip-version-check --upgrade --upgrade-strategy eager --use-pep517 \
    -e '.[texts,captum]' -e 'lib/paper[fewshot,minilm]' papermill ipykernel jupytext
names=("$@")
[ ${#names[@]} -gt 0 ] || names=($(cd book && ls ./*.ipynb | sed 's|^\./||; s|\.ipynb$||'))
failed=0
for name in "${names[@]}"; do
    echo "$name"
    log=$folder/notebooks/$name.log
    code=0
    JUPYTER_PREFER_ENV_PATH=1 "$python" -m papermill --no-progress-bar --kernel python3 --cwd book \
        "book/$name.ipynb" "$folder/notebooks/$name.ipynb" > "$log" 2>&1 || code=$?
    [ "$code" -eq 0 ] || { failed=1; tail -n 3 "$log" >&2; }
    "$python" scripts/doors.py "$name" "$code" "$log"
done
exit "$failed"
