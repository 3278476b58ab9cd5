"""The machine: its GPU, the cost model that predicts it, and where NVIDIA's compiler lies."""

import glob
import json
import os
import platform
import site
import sys
import tarfile

# Words of a GPU's name, all of which it must have, and the built-in device; the first that fits.
DEVICES = [
    (("GB200",), "gb200"), (("GB300",), "gb300"), (("B200",), "b200-sxm"), (("B300",), "b300-sxm"),
    (("H200",), "h200-sxm"), (("H100", "PCIe"), "h100-pcie"), (("H100",), "h100-sxm"), (("H20",), "h20"),
    (("A100", "PCIE"), "a100-pcie-80gb"), (("A100", "PCIe"), "a100-pcie-80gb"), (("A100", "40GB"), "a100-sxm-40gb"),
    (("A100",), "a100-sxm-80gb"), (("A10G",), "a10g"), (("L40S",), "l40s"), (("L4",), "l4"),
    (("RTX 3090",), "rtx-3090"), (("RTX 4090",), "rtx-4090"), (("Fake GPU",), "cpu"),
]


class Machine:
    """Also sets what all commands of the run see."""

    def __init__(self, run):
        environment = run.environment
        if "MESHWRIGHT_CACHE" not in environment:
            environment["MESHWRIGHT_CACHE"] = str(unpacked(run))
        environment["MESHWRIGHT_CUBINS"] = environment["MESHWRIGHT_CACHE"] + "/kernels"
        environment["MESHWRIGHT_GPU"] = "real"
        environment["MESHWRIGHT_PROGRAM"] = run.program("meshwright")
        folder = nvrtc_folder(run)
        if folder and "MESHWRIGHT_NVRTC" not in environment:
            environment["MESHWRIGHT_NVRTC"] = folder
        self.listing, done = run.meshwright("devices", "devices", limit=60)
        if self.listing is None:
            sys.exit(f"meshwright devices: {done.complaint()}")
        cuda = self.listing["cuda"]
        devices = [device for device in cuda["devices"] if device["problem"] is None]
        if not devices:
            sys.exit(self.listing["verdict"])
        card = devices[0]
        self.gpu, self.capability, self.memory = card["name"], card["compute_capability"], card["memory_bytes"]
        libraries = {library["name"]: library for library in cuda["libraries"]}
        self.driver = libraries["libcuda"]["version"]
        self.nvrtc = libraries["NVRTC"]["version"]
        self.device = next((name for words, name in DEVICES if all(word in self.gpu for word in words)), None)
        self.is_known = self.device is not None
        self.device = self.device or "h100-sxm"
        architectures = (run.folder / "architectures").read_text().split()
        self.has_kernels = "sm_" + self.capability.replace(".", "") in architectures
        run.results["machine"] = {
            "gpu": self.gpu, "compute_capability": self.capability, "memory_bytes": self.memory, "driver": self.driver,
            "nvrtc": self.nvrtc, "cost_model": self.device, "cost_model_is_the_cards": self.is_known,
            "cpu": cpu(), "cores": os.cpu_count(), "python": platform.python_version(),
            "made": json.loads((run.folder / "made.json").read_text()), "libraries": cuda["libraries"]}

    def __str__(self):
        lines = [f"{self.gpu}, compute capability {self.capability}, {self.memory / 2**30:.1f} GiB; CUDA {self.driver}; "
                 f"{os.cpu_count()} cores of {cpu()}"]
        if not self.is_known:
            lines.append(f"No cost model is this card's: predictions are those of {self.device}, and will be off.")
        if not self.nvrtc:
            lines.append("NVRTC is not here: kernels that the folder has no binary of fail. "
                         "`pip install nvidia-cuda-nvrtc` brings it; MESHWRIGHT_NVRTC names its folder.")
        if not self.has_kernels:
            lines.append("The folder has no kernels for this card: NVRTC compiles each at its first use, so parts take longer.")
        return "\n".join(lines)


def unpacked(run):
    """The folder of the kernels that the bundle carries."""
    for place in (run.folder, run.out):
        if (place / "kernels").is_dir():
            return place
        part = place / "kernels.part"
        try:
            with tarfile.open(run.folder / "kernels.tar.gz") as carried:
                carried.extractall(part)
            (part / "kernels").rename(place / "kernels")
            part.rmdir()
            return place
        except PermissionError:
            continue
    sys.exit(f"neither {run.folder} nor {run.out} can be written to")


def nvrtc_folder(run):
    """Where a Python's packages have NVRTC, as beside PyTorch. The folder's kernels were made by 13.0: the nearest first."""
    if "FAKE_CUDA_NVRTC" in run.environment:
        return None  # The stand-in's compiler is found by the loader.
    for packages in site.getsitepackages() + [site.getusersitepackages()]:
        for folder in ("nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"):
            if glob.glob(f"{packages}/{folder}/libnvrtc.so*"):
                return f"{packages}/{folder}"
    return None


def cpu():
    with open("/proc/cpuinfo") as lines:
        names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
