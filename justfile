# What `just` alone shows: the recipes.
default:
    @just --list

# All that CI checks.
check:
    .ci/run

# All tests.
test:
    cargo test

# Take what the code does now as right: snapshots and JSON schemas. Look at the difference before you commit it.
bless:
    MESHWRIGHT_BLESS=1 INSTA_UPDATE=always cargo test

# Unsafe code under Miri, as far as it can be run there; needs the nightly toolchain with miri and rust-src.
miri:
    MIRIFLAGS=-Zmiri-disable-isolation cargo +nightly miri test --lib -- execute::comm execute::device::cpu --skip rounding_by_bits --skip many_small --skip sums_are_the_naive

# Attack the search's certificate with 10,000 strategies in 40 settings.
attack:
    MESHWRIGHT_ATTACK=250 cargo test --release --test certificate

# Lines of code by module, tests and documentation apart, and the longest files.
size:
    @for module in src/*/; do printf '%7d  %s\n' "$(find "$module" -name '*.rs' -exec cat {} + | wc -l)" "$module"; done | sort -rn
    @printf '%7d  %s\n' "$(find src -name '*.rs' -exec cat {} + | wc -l)" "src" "$(find tests benches -name '*.rs' -exec cat {} + | wc -l)" "tests, benches" "$(find . -name '*.md' -not -path './target/*' -exec cat {} + | wc -l)" "documentation"
    @find src tests benches -name '*.rs' -exec wc -l {} + | grep -v total | sort -rn | head

# The outputs and figures that README.md and docs/ show, from runs of today; a test fails when they are stale.
outputs:
    cargo build --release
    MESHWRIGHT_OUTPUTS=write MESHWRIGHT_PROGRAM="$PWD/target/release/meshwright" cargo test --test cli outputs -- --include-ignored

# Matrix products as shares of what this machine's multiply-adds reach; on a quiet machine only.
products:
    cargo bench --bench products

# The CUDA kernels without a GPU: all cases on the emulator, the planted bugs, registers and memory of each kernel. Needs
# Python and g++; twelve minutes on two cores the first time.
kernels:
    .ci/gpu

# Cases of kernels on the emulator: all, or those that `--only SUBSTRING` names.
cases *arguments:
    .ci/gpu cases {{arguments}}

# Registers and memory of each kernel, docs/reference/cuda-kernels.md anew. Fails on a spill without a reason. `--all` compiles
# what is known from before, too.
gate *arguments:
    .ci/gpu gate {{arguments}}

# A folder of under 60 MB that tries the CUDA device on a machine with a GPU, without cargo or a network: target/gpu-bundle.
gpu-bundle *arguments:
    .ci/gpu bundle {{arguments}}

# How long planning takes.
bench:
    cargo bench --bench plan

# Gaps and times of every preset on 1, 2, 8 and 64 nodes for eight engines; ten minutes, on a quiet machine only.
gaps *arguments:
    cargo bench --bench gaps -- {{arguments}}

# Whether any plan is faster than the fastest measured run of its device without saying so; half an hour.
envelope *arguments:
    cargo bench --bench envelope -- {{arguments}}

# Predictions against the published runs, anew: the table of docs/accuracy.md and the page with residual plots.
accuracy:
    cargo run --release -- validate traces/published --report docs/accuracy-table.md
    cargo run --release -- validate traces/published --report reports/published-runs.html

# The pages and plans in reports/, anew.
samples:
    cargo run --release -- plan llama-3.1-70b --cluster 8x8xh100-sxm --global-batch 512 --seq-len 8192 --report reports/llama-3.1-70b-64xh100.html

# Make the golden files of tests/oracle anew, in Python, and compare them with the committed ones.
oracle:
    test -x target/oracle/bin/python || python3 -m venv target/oracle
    target/oracle/bin/pip install --quiet autograd==1.9.1 numpy==2.4.6
    target/oracle/bin/python tests/oracle/check.py

# Tokens a second of GPT-2 124M against PyTorch and JAX (benches/outside); on a quiet machine only.
outside *arguments:
    cargo build --release
    test -x target/outside/bin/python || python3 -m venv target/outside
    target/outside/bin/pip install --quiet jax==0.10.2
    python3 benches/outside/compare.py {{arguments}}

# How the built-in numbers do on sources that they have not seen: each is left out in turn. The table of evidence is written in
# place; minutes, and `just refit` ends with the same.
left-out:
    cargo run --release -- calibrate --fit traces/published traces/own/gpu_facts-h200-sxm.json --left-out --models cost_models --out cost_models

# Fit the built-in cost models and engine profiles to the published runs, in place; minutes.
refit:
    cargo run --release -- calibrate --fit traces/published traces/own/gpu_facts-h200-sxm.json --models cost_models --out cost_models --json > cost_models/fit/report.new
    mv cost_models/fit/report.new cost_models/fit/report.json
