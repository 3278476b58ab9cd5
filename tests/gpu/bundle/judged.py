"""Whether a small run on the stand-in went as it must: `judged.py results.json kernels.tar.gz CACHE`."""

import json
import pathlib
import sys
import tarfile

# What no stand-in has: a card to be fast, PyTorch, NVIDIA's checker.
WITHOUT = {"pytorch", "speed", "sanitizer"}


def main(results, kernels, cache):
    parts = json.loads(pathlib.Path(results).read_text())["parts"]
    wrong = []
    for name, part in parts.items():
        may = {"left out"} if name in WITHOUT else {"passed", "measured"}
        if part["state"] not in may:
            wrong.append(f"{name}: {part['state']}, {part['said']}")
    # The stand-in asks for kernels by the same keys as a card of its compute capability.
    with tarfile.open(kernels) as carried:
        names = {pathlib.PurePath(name).name for name in carried.getnames()}
    asked = {path.name for path in pathlib.Path(cache).rglob("*.cubin")}
    missing = asked - names
    if missing or not asked:
        wrong.append(f"of {len(asked)} kernels that the run asked for, the bundle lacks {len(missing)}")
    for line in wrong:
        print(line, file=sys.stderr)
    if not wrong:
        print(f"{len(parts)} parts as they must be; all {len(asked)} kernels that they asked for are in the bundle")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
