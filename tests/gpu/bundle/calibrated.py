"""The cost model of this very GPU, as `meshwright calibrate --device cuda` measures it."""

# What is not measured is this card's, where no built-in cost model is the GPU's.
OTHERWISE = "h200-sxm"


def run(run):
    path = run.out / "calibrated.json"
    base = run.machine.device if run.machine.device != "cpu" else OTHERWISE
    words = ["calibrate", "--device", "cuda", "--quick", "--base", base, "--out", path]
    done = run.command("calibrate", [run.program("meshwright"), *words])
    if done.code == 0 and path.exists():
        run.calibrated = path
        print(done.stdout)
        return "measured", f"{path.name}; predictions by it stand beside those of the built-in cost model"
    return ("not finished" if done.is_late() else "FAILED"), done.complaint()
