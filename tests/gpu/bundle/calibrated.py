"""The cost model of this very GPU, as `meshwright calibrate --device cuda` measures it."""

from parts import LeftOut


def run(run):
    path = run.out / "calibrated.json"
    done = run.command("calibrate", [run.program("meshwright"), "calibrate", "--device", "cuda", "--out", path])
    if done.code == 0 and path.exists():
        run.calibrated = path
        return "measured", f"{path.name}; predictions by it stand beside those of the built-in cost model"
    if "no CUDA backend" in done.complaint():
        raise LeftOut("this program cannot calibrate a GPU yet")
    return ("not finished" if done.is_late() else "FAILED"), done.complaint()
