#!/usr/bin/env bash
# Exports the plans of samples.txt, has the engines' own parsers read the files, and writes accepted.txt: of each file
# its SHA-256 and what its parser said. Needs Python 3.11 and PyPI; `meshwright` is built if it is not there.
set -euo pipefail
cd "$(dirname "$0")"
here=$PWD
root=$(cd ../../.. && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

(cd "$root" && cargo build --quiet)
export PATH="$root/target/debug:$PATH"

python3 -m venv "$work/venv"
"$work/venv/bin/pip" -q install tyro==1.0.17 pyyaml psutil numpy packaging pydantic dacite PyYAML einops \
    hjson msgpack tqdm filelock fiddle catalogue typer rich networkx jinja2 toml inquirerpy wrapt python-dateutil
# Sources only: their dependencies are PyTorch and the like, which their configuration does not need.
"$work/venv/bin/pip" -q download --no-deps --no-binary :none: -d "$work/archives" \
    torchtitan==0.2.2 nemo-toolkit==2.6.0 nemo-run==0.11.1 megatron-core==0.16.1 accelerate==1.15.0 nanotron==0.4 deepspeed==0.19.8
for archive in "$work"/archives/*; do
    name=$(basename "$archive" | sed 's/[-_]core//; s/_toolkit//; s/-.*//')
    mkdir -p "$work/source/$name"
    case $archive in
    *.whl) "$work/venv/bin/python" -m zipfile -e "$archive" "$work/source/$name" ;;
    *) tar xzf "$archive" -C "$work/source/$name" --strip-components=1 ;;
    esac
done
export TORCHTITAN_SOURCE=$work/source/torchtitan MEGATRON_SOURCE=$work/source/megatron
export ACCELERATE_SOURCE=$work/source/accelerate NANOTRON_SOURCE=$work/source/nanotron
export DEEPSPEED_SOURCE=$work/source/deepspeed NEMO_SOURCE=$work/source/nemo NEMO_RUN_SOURCE=$work/source/nemo_run
# The release whose configurations are Python, beside the one whose are TOML.
"$work/venv/bin/pip" -q download --no-deps -d "$work/recipe" torchtitan==0.3.0
"$work/venv/bin/python" -m zipfile -e "$work"/recipe/torchtitan-*.whl "$work/source/torchtitan_recipe"
export TORCHTITAN_RECIPE_SOURCE=$work/source/torchtitan_recipe
# Of torch two Python files are needed, out of a large wheel; TORCH_SOURCE may name a folder that holds `torch/` already.
if [ -z "${TORCH_SOURCE:-}" ]; then
    "$work/venv/bin/pip" -q download --no-deps -d "$work/torch" torch==2.11.0
    "$work/venv/bin/python" - "$work"/torch/torch-*.whl "$work/source/torch" <<'END'
import sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel:
    wheel.extractall(sys.argv[2], [name for name in wheel.namelist() if name.startswith("torch/distributed/pipelining/")])
END
    rm -r "$work/torch"
    export TORCH_SOURCE=$work/source/torch
fi

{
    echo "# Files that the engines' own parsers took: SHA-256, target, what was said. Written by check.sh."
    number=0
    while read -r target engine model cluster batch sequence strategy; do
        case $target in '' | '#'*) continue ;; esac
        number=$((number + 1))
        plan=$work/plan-$number.json out=$work/out-$number
        # 4 says that it does not fit, which is no matter here.
        meshwright simulate "$model" --cluster "$cluster" --global-batch "$batch" --seq-len "$sequence" \
            --engine "$engine" --strategy "$strategy" --out "$plan" >/dev/null || [ $? = 4 ]
        meshwright export "$plan" --to "$target" --out "$out" --as-is --json >"$work/summary"
        # The file, the devices, the ranks that share a data rank's batch, pipeline ranks and micro-batches.
        read -r file devices inside ranks passes < <("$work/venv/bin/python" - "$work/summary" "$cluster" <<'END'
import json, math, sys
summary = json.load(open(sys.argv[1]))
keys = dict(part.split("=", 1) for part in summary["strategy"].split(","))
nodes, each, _ = sys.argv[2].split("x", 2)
print(summary["files"][0], int(nodes) * int(each), int(keys["tp"]) * int(keys["pp"]), keys["pp"], keys["accum"])
END
        )
        parser=${target%%@*}
        if [ "$target" = torchtitan@v0.3.0 ]; then parser=torchtitan_recipe; fi
        said=$(cd "$out" && "$work/venv/bin/python" "$here/$parser.py" "$file" "$devices" "$inside")
        if [ -f "$out/schedule.csv" ]; then
            said="$said; $("$work/venv/bin/python" "$here/torch_schedule.py" "$out/schedule.csv" "$ranks" "$passes")"
        fi
        file=$out/$file
        echo "$(sha256sum <"$file" | cut -d' ' -f1) $target $(echo "$said" | tail -n 1)"
    done <"$here/samples.txt"
} >"$work/accepted.txt"
mv "$work/accepted.txt" "$here/accepted.txt"
cat "$here/accepted.txt"
