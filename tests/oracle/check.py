"""Makes the golden files anew in a temporary folder and compares them with those that are committed."""

import json
import math
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent


def differences(path, old, new):
    """Places where two documents differ; numbers may by 1e-9 of themselves, or by 1e-11."""
    if isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys():
        for key in old:
            yield from differences(f"{path}.{key}", old[key], new[key])
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, pair in enumerate(zip(old, new)):
            yield from differences(f"{path}[{index}]", *pair)
    elif isinstance(old, float) and isinstance(new, float):
        if not math.isclose(old, new, rel_tol=1e-9, abs_tol=1e-11):
            yield f"{path}: {old} is now {new}"
    elif type(old) is not type(new) or old != new:
        yield f"{path} differs"


def read(folder):
    return {path.name: json.loads(path.read_text()) for path in folder.glob("*.json")}


def main():
    with tempfile.TemporaryDirectory() as folder:
        for script in ("gpt2", "llama", "moe", "two_losses"):
            subprocess.run([sys.executable, HERE / f"{script}.py", folder], check=True)
        old, new = (read(pathlib.Path(f)) for f in (HERE / "golden", folder))
        found = list(differences("golden", old, new))
    print("\n".join(found) or f"{len(old)} golden files as committed")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
