#!/usr/bin/env bash
# Runs what is missing on this machine within a deadline, executes the chapters on these runs by papermill, and packs
# runs, tables and executed notebooks. Elsewhere, in the same commit, `make book EXECUTED=notebooks` renders these.
#
#   DATA=folder scripts/gpu_runner.sh
#   PROFILE=quick DEVICE=cpu scripts/gpu_runner.sh        # the same on a laptop
#
# Options are environment variables:
#   DATA         folder of corpora                         [WHENPOOL_DATA, else data/corpora]
#   STORE        folder of runs                            [WHENPOOL_STORE, else data/runs]
#   OUT          folder of what this script makes          [_build/runner]
#   PROFILE      smoke, quick, compact or paper            [paper]
#   DEVICE       cuda or cpu                               [cuda]
#   CORPUS       imdb, yelp, or the whole path of a file    [the profile's own]
#   CHAPTER, SIZES, SETTINGS, POOLINGS, SEEDS   which runs   [as whenpool run has them]
#   DEADLINE     for the runs, such as 40m                 [5h]
#   MODELS_PER_BATCH, WORKERS, PRECISION                           [as whenpool run has them]
#   TWICE, BOOK  0 leaves out running a cell twice, executing chapters  [1]
#   PYTHON       an interpreter that has whenpool          [.venv/bin/python, else python3]
#
# Exit code: 0 if every step succeeded, even if single runs failed (see runs.txt); else that of the last step that
# failed; 2 if the machine is not ready. Whatever is done is packed, unless the machine is not ready or ctrl-C stops it.
set -euo pipefail

absolute() {
    case $1 in
        /*) printf '%s\n' "$1" ;;
        *) printf '%s/%s\n' "$PWD" "$1" ;;
    esac
}

[ -z "${DATA:-}" ] || WHENPOOL_DATA=$(absolute "$DATA")
[ -z "${STORE:-}" ] || WHENPOOL_STORE=$(absolute "$STORE")
[ -z "${OUT:-}" ] || OUT=$(absolute "$OUT")
cd "$(dirname "$0")/.."
export WHENPOOL_DATA=${WHENPOOL_DATA:-$PWD/data/corpora} WHENPOOL_STORE=${WHENPOOL_STORE:-$PWD/data/runs}
OUT=${OUT:-$PWD/_build/runner}
PROFILE=${PROFILE:-paper} DEVICE=${DEVICE:-cuda} DEADLINE=${DEADLINE:-5h} TWICE=${TWICE:-1} BOOK=${BOOK:-1}
if [ -z "${PYTHON:-}" ]; then
    PYTHON=python3
    [ ! -x .venv/bin/python ] || PYTHON=.venv/bin/python
fi

whenpool() { "$PYTHON" -m whenpool "$@"; }
run() {
    local said=0
    whenpool run "$@" 2> >(tee -a "$pack/runs.txt" >&2) || said=$?
    if [ "$said" = 1 ]; then
        echo "gpu_runner: some runs failed; the rest went on" >&2
    elif [ "$said" != 0 ]; then
        code=$said
    fi
}
trap 'exit 130' INT TERM
stage() { printf '\n== %s\n' "$1"; }

what=(--profile "$PROFILE")
[ -z "${CORPUS:-}" ] || what+=(--corpus "$CORPUS")
how=(--device "$DEVICE")
[ -z "${WORKERS:-}" ] || how+=(--workers "$WORKERS")
[ -z "${MODELS_PER_BATCH:-}" ] || how+=(--models-per-batch "$MODELS_PER_BATCH")
[ -z "${PRECISION:-}" ] || how+=(--precision "$PRECISION")
some=(--deadline "$DEADLINE")
for name in chapter sizes settings poolings seeds; do
    value=$(tr '[:lower:]' '[:upper:]' <<< "$name") # as the bash of a Mac can
    [ -z "${!value:-}" ] || some+=("--$name" "${!value}")
done

# Smoke-sized runs lie apart and are never put on record.
runs=$WHENPOOL_STORE results=data/results below=
if [ "$PROFILE" = smoke ]; then
    runs=$WHENPOOL_STORE/smoke results=$OUT/results below=/smoke
fi

pack=$OUT/whenpool-pack twice=$OUT/whenpool-twice  # nobody else's names: they are removed
mkdir -p "$OUT"
rm -rf "$pack" "$twice" "$OUT/whenpool-results.tar.gz"
mkdir -p "$pack/runs" "$pack/results" "$results"

stage "the machine"
if ! whenpool check --device "$DEVICE" --profile "$PROFILE" > "$pack/check.txt"; then
    sed -n 's/^missing */gpu_runner: /p' "$pack/check.txt" >&2
    exit 2
fi
cat "$pack/check.txt"

code=0
if [ "$TWICE" != 0 ]; then
    stage "one cell of the grid, twice"
    # Of the first corpus that is here; in the paper's profile of its smallest training set.
    corpus=${CORPUS:-$(sed -n 's/^ok *corpora: \([^,;]*\).*/\1/p' "$pack/check.txt")}
    [ -f "$corpus" ] || corpus=${corpus%% *}
    cell=(--profile "$PROFILE" --corpus "$corpus" --settings mid --seeds 2
        --poolings 'last,max_attention')
    [ "$PROFILE" != paper ] || cell+=(--sizes 1000)
    for store in first second; do
        run "${cell[@]}" "${how[@]}" --store "$twice/$store" --keep-weights --deadline "$DEADLINE"
    done
    "$PYTHON" -m whenpool compare "$twice/first$below" "$twice/second$below" --record --results "$results" |
        tee "$pack/twice.txt" || code=$?
fi

stage "the runs, for $DEADLINE at most"
run "${what[@]}" "${how[@]}" "${some[@]}"
[ "$PROFILE" = smoke ] || whenpool record || code=$?

if [ "$BOOK" = 0 ]; then
    stage "no chapters were asked for"
elif ! "$PYTHON" -c 'import jupytext, papermill' 2> /dev/null; then
    stage "no chapters: jupytext or papermill is not installed"
else
    stage "the chapters, from the runs there are"
    whenpool book "${what[@]}" "${how[@]}" --deadline 1s --notebooks "$pack/notebooks" || code=$?
fi

stage "packing"
whenpool status "${what[@]}" | tee "$pack/status.txt" || code=$?
copy() { find "$1" -maxdepth 1 -name "$2" -exec sh -c 'cp "$@" "$0"' "$pack/$3" {} +; }
copy "$runs" '*.json' runs
copy "$results" '*.csv' results
tar -czf "$OUT/whenpool-results.tar.gz" -C "$pack" .
rm -rf "$pack" "$twice"
tar -tzf "$OUT/whenpool-results.tar.gz"
printf 'gpu_runner: %s holds them\n' "$OUT/whenpool-results.tar.gz"
exit "$code"
