#!/usr/bin/env bash
# Computes runs on a GPU that is lent for some minutes, on a machine that may have neither network, the
# publishers' archives nor torchtext. What is finished is packed every 30 seconds; the next call goes on.
#
#   scripts/gpu_session.sh check        # versions, tests on the GPU, speeds
#   scripts/gpu_session.sh run
#
# Before, on a machine with the data:
#   whenpool pack session/packed --profile paper --corpus imdb --data folder
#   (cd session && tar -cJf packed.tar.xz packed && rm -r packed)
#   pip download --no-deps --only-binary=:all: -d session/wheels ...     # what the other machine lacks
#
# Options are environment variables:
#   SESSION   folder with packed.tar.xz, maybe wheels, and the results of earlier calls   [session]
#   OUT       folder for results, runs.tar.gz.0 and so on, each of 15 MB at most          [_build/session]
#   WORK      scratch folder                                                              [/tmp/whenpool]
#   MINUTES   to work for                                                                 [9]
#   DEVICE    cuda or cpu                                                                 [cuda]
#   BLOCKS    a file with lines such as "exact --profile paper --corpus imdb --sizes 1000", a folder and
#             options of whenpool run; those in the folder "fast" can be compared with the same runs in
#             "exact"                                                                     [what tells most first]
#   PYTHON, WORKERS                                                                       [python3, the command's]
set -euo pipefail

SESSION=$(realpath "${SESSION:-session}") OUT=$(realpath -m "${OUT:-_build/session}")
BLOCKS=${BLOCKS:+$(realpath "$BLOCKS")} WORK=${WORK:-/tmp/whenpool} DEVICE=${DEVICE:-cuda}
PYTHON=${PYTHON:-python3} end=$((SECONDS + 60 * ${MINUTES:-9}))
cd "$(dirname "$0")/.."
[ -f "$SESSION/packed.tar.xz" ] || { echo "gpu_session: $SESSION/packed.tar.xz is not there" >&2; exit 2; }
mkdir -p "$OUT" "$WORK/runs"

# Of a machine that is still warm from the last call, this is there already.
stamp=$(cksum < "$SESSION/packed.tar.xz")
if [ "$(cat "$WORK/ready" 2> /dev/null)" != "$stamp" ]; then
    rm -rf "$WORK/packed"
    tar -xJf "$SESSION/packed.tar.xz" -C "$WORK"
    if ls "$SESSION"/wheels/*.whl > /dev/null 2>&1; then
        "$PYTHON" -m pip install -q --no-index --no-deps --target "$WORK/site" "$SESSION"/wheels/*.whl
    fi
    if [ -f "$SESSION/runs.tar.gz.0" ]; then
        cat "$SESSION"/runs.tar.gz.* | tar -xz -C "$WORK/runs"
    fi
    echo "$stamp" > "$WORK/ready"
fi
export PYTHONPATH=$PWD/lib:$WORK/site${PYTHONPATH:+:$PYTHONPATH} PYTHONUNBUFFERED=1
export WHENPOOL_CACHE=$WORK/packed/cache # where a run looks up which kernels the check found right

# Under NVIDIA's MPS, workers that share a GPU compute at the same time instead of in turns.
start_mps() {
    [ "$DEVICE" = cuda ] && command -v nvidia-cuda-mps-control > /dev/null || return 0
    export CUDA_MPS_PIPE_DIRECTORY=$WORK/mps CUDA_MPS_LOG_DIRECTORY=$WORK/mps
    mkdir -p "$WORK/mps"
    nvidia-cuda-mps-control -d || true # one of a call that was killed may be there still
    echo get_server_list | nvidia-cuda-mps-control > /dev/null || unset CUDA_MPS_PIPE_DIRECTORY
}

stop_mps() { [ -z "${CUDA_MPS_PIPE_DIRECTORY:-}" ] || echo quit | nvidia-cuda-mps-control || true; }

left() { echo $((end - SECONDS)); }

save() {
    rm -rf "$WORK/new" && mkdir "$WORK/new"
    (cd "$WORK/runs" && find . -name '*.json' -print0 | tar -cz --null -T -) |
        split -b 15M -d -a 1 - "$WORK/new/runs.tar.gz."
    mv "$WORK"/new/* "$OUT"
}

block() { # a folder of runs, and options
    local store=$WORK/runs/$1
    shift
    [ "$(left)" -gt 20 ] || return 0
    echo "== $* ($(left) s left)"
    # What has not ended in time is stopped; an unfinished training goes on in the next call. In the
    # background, so that ctrl-C, which timeout keeps from its command, is heard at once.
    timeout -s INT "$(($(left) + 15))" "$PYTHON" -m whenpool run --packed "$WORK/packed" --store "$store" \
        --device "$DEVICE" ${WORKERS:+--workers "$WORKERS"} --deadline "$(left)s" "$@" &
    running=$!
    wait "$running" || true
    running=
}

interrupted() {
    trap '' INT TERM
    if [ -n "$running" ]; then
        kill -TERM "$running" 2> /dev/null || true
        wait "$running" || true
    fi
    exit 130
}

# A GPU trains as many models at once as keep it busy. Pairs of both precisions come first: they decide
# whether what is fast may be published. Gradients are followed in float32.
what_tells_most_first() {
    local skip="--chapter training_to_skip" fast="fast --precision bfloat16"
    sed 's/$/ --profile paper --corpus imdb/' << EOF
exact $skip --settings mid --sizes 1000
$fast $skip --settings mid --sizes 1000
exact --chapter last_state --sizes 1000
$fast --chapter last_state --sizes 10000 --keep-weights
$fast $skip --settings left,mid,right --sizes 2000
$fast $skip --sizes 5000
$fast $skip --chapter natural_bias --chapter word_importance --sizes 10000 --keep-weights
exact --chapter learnability
EOF
}

# Words learnt from a second since the call began, evaluation included, and how busy the GPU was.
report_speed() {
    "$PYTHON" - "$WORK" "$SECONDS" << 'EOF'
import json, pathlib, sys

work, seconds = pathlib.Path(sys.argv[1]), float(sys.argv[2])
began = (work / "began").stat().st_mtime
rows = [json.loads(file.read_text()) for file in (work / "runs").rglob("*.json") if file.stat().st_mtime > began]
words = sum(row["result"].get("train_words", 0) for row in rows)
busy = [float(line) for line in (work / "busy").read_text().split() if line.isdecimal()]
share = f", the GPU busy for {sum(busy) / len(busy):.0f} % of the time" if busy else ""
print(f"gpu_session: {len(rows)} runs, {words / seconds / 1e6:.2f} million trained words a second{share}")
EOF
}

case ${1:-} in
    check)
        "$PYTHON" -m whenpool check --device "$DEVICE" --profile paper --data "$WORK/packed" || true
        "$PYTHON" -m pytest -q -m "$DEVICE" tests/library/test_accelerators.py tests/library/test_triton_lstm.py 2>&1 |
            tee "$OUT/tests.txt" || true
        trap stop_mps EXIT
        start_mps # for the processes of the bench
        timeout 180 "$PYTHON" -m bench batched 2>&1 | tee "$OUT/speeds.txt" || true
        ;;
    run)
        while sleep "${SAVE_EVERY:-30}"; do save; done &
        saving=$!
        touch "$WORK/began" "$WORK/busy"
        nvidia-smi --query-gpu=utilization.gpu --format=csv,noheader,nounits -l 1 > "$WORK/busy" 2> /dev/null &
        watching=$!
        trap 'kill $saving $watching 2> /dev/null; stop_mps; save; report_speed' EXIT
        running=
        trap interrupted INT TERM
        start_mps
        # On a machine that is new, no kernel was found right yet; where they were, this tries them again.
        [ "$DEVICE" = cpu ] || "$PYTHON" -m whenpool check --device "$DEVICE" --data "$WORK/packed" || true
        while read -r -a words || [ ${#words[@]} -gt 0 ]; do # also a last line without an end
            [ ${#words[@]} -eq 0 ] || block "${words[@]}" < /dev/null
        done < <(if [ -n "$BLOCKS" ]; then cat "$BLOCKS"; else what_tells_most_first; fi)
        ;;
    *)
        echo "gpu_session: say check or run" >&2
        exit 2
        ;;
esac
