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


# Where a Python's packages have NVIDIA's libraries, as beside PyTorch: for CUDA 13, and before.
LIBRARIES = {
    "MESHWRIGHT_NVRTC": ("libnvrtc.so*", ["nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"]),
    "MESHWRIGHT_CUBLASLT": ("libcublasLt.so*", ["nvidia/cu13/lib", "nvidia/cublas/lib"]),
    "MESHWRIGHT_NCCL": ("libnccl.so*", ["nvidia/nccl/lib"]),
}


class Machine:
    """Also sets what all commands of the run see."""

    def __init__(self, run):
        environment, made = run.environment, json.loads((run.folder / "made.json").read_text())
        if "MESHWRIGHT_CACHE" not in environment:
            environment["MESHWRIGHT_CACHE"] = str(unpacked(run))
        environment["MESHWRIGHT_CUBINS"] = environment["MESHWRIGHT_CACHE"] + "/kernels"
        environment["MESHWRIGHT_GPU"] = "real"
        environment["MESHWRIGHT_PROGRAM"] = run.program("meshwright")
        if "FAKE_CUDA_NVRTC" not in environment:  # The stand-in's libraries are found by the loader.
            environment.update(packaged(environment))
        listing, done = run.meshwright("devices", "devices", limit=60)
        if listing is None:
            sys.exit(f"meshwright devices: {done.complaint()}")
        cuda = listing["cuda"]
        cards = [card for card in cuda["devices"] if card["problem"] is None]
        if not cards:
            sys.exit(listing["verdict"])
        card = cards[0]
        self.gpu, self.capability, self.memory = card["name"], card["compute_capability"], card["memory_bytes"]
        versions = {library["name"]: library["version"] for library in cuda["libraries"]}
        self.driver, self.nvrtc, self.made_by = versions["libcuda"], versions["NVRTC"], made["nvrtc"]
        self.device = next((name for words, name in DEVICES if all(word in self.gpu for word in words)), None)
        self.is_known = self.device is not None
        self.device = self.device or "h100-sxm"
        # A driver may not load what a compiler of a newer CUDA made.
        major = lambda version: int((version or "0").split(".")[0])
        is_loaded = major(self.made_by) <= major(self.driver)
        # A binary runs on cards of the same major capability that are not older.
        of_major, own = self.capability.split(".")
        runs = {f"sm_{of_major}{minor}" for minor in range(int(own) + 1)}
        self.has_kernels = is_loaded and not runs.isdisjoint(made["architectures"].split())
        if self.nvrtc and self.nvrtc != self.made_by and self.has_kernels:
            # Kernels count for the compiler that made them. Without another one, those of the bundle are taken.
            run.compiler = environment.get("MESHWRIGHT_NVRTC", "")
            environment["MESHWRIGHT_NVRTC"] = str(run.out / "no-nvrtc")
        run.results["machine"] = {
            "gpu": self.gpu, "cards": len(cards), "compute_capability": self.capability, "memory_bytes": self.memory, "libraries": versions,
            "cost_model": self.device, "cost_model_is_the_cards": self.is_known, "cpu": cpu(), "cores": os.cpu_count(),
            "python": platform.python_version(), "made": made}

    def __str__(self):
        lines = [f"{self.gpu}, compute capability {self.capability}, {self.memory / 2**30:.1f} GiB; CUDA {self.driver}; "
                 f"{os.cpu_count()} cores of {cpu()}"]
        if not self.is_known:
            lines.append(f"No cost model is this card's: predictions are those of {self.device}, and will be off.")
        if not self.nvrtc:
            lines.append("NVRTC is not here: what needs a kernel that the bundle lacks fails. "
                         "`pip install nvidia-cuda-nvrtc`, or nvidia-cuda-nvrtc-cu12 with a driver of CUDA 12, brings it; "
                         "MESHWRIGHT_NVRTC names its folder.")
        if not self.has_kernels:
            lines.append("The bundle has no kernels for this card and driver: NVRTC compiles each at its first use, so parts take longer.")
        return "\n".join(lines)


def unpacked(run):
    """The folder of the kernels that the bundle carries."""
    for place in (run.folder, run.out):
        if (place / "kernels").is_dir():
            return place
        part = place / "kernels.part"
        try:
            with tarfile.open(run.folder / "kernels.tar.gz") as carried:
                # Named since Python 3.12.
                carried.extractall(part, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
            (part / "kernels").rename(place / "kernels")
            part.rmdir()
            return place
        except PermissionError:
            continue
    sys.exit(f"neither {run.folder} nor {run.out} can be written to")


def packaged(environment):
    """Variables that name folders of this Python's packages, where none are set."""
    found = {}
    for variable, (pattern, folders) in LIBRARIES.items():
        places = [f"{packages}/{folder}" for packages in site.getsitepackages() + [site.getusersitepackages()]
                  for folder in folders]
        places = [place for place in places if glob.glob(f"{place}/{pattern}")]
        if places and variable not in environment:
            found[variable] = os.pathsep.join(places)
    return found


def cpu():
    with open("/proc/cpuinfo") as lines:
        names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
