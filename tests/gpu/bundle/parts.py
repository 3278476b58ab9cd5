"""What parts share: commands with a time limit, their logs, and what was found."""

import json
import os
import signal
import subprocess
import time


class LeftOut(Exception):
    """A part or a line that cannot be tried on this machine, and why."""


class Done:
    """What a command left behind."""

    def __init__(self, code, stdout, stderr, seconds):
        self.code, self.stdout, self.stderr, self.seconds = code, stdout, stderr, seconds

    def is_late(self):
        return self.code is None

    def complaint(self):
        """Its last words, on one line."""
        if self.is_late():
            return f"stopped after {self.seconds:.0f} s: no time left"
        lines = [line for line in (self.stderr + "\n" + self.stdout).splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("error") or "panicked" in line]
        return f"exit code {self.code}: {(errors or lines or ['it said nothing'])[-1][:300]}"


class Run:
    """One run of all parts."""

    def __init__(self, folder, out, small):
        self.folder, self.out, self.small = folder, out, small
        self.began, self.end = time.monotonic(), 0.0
        self.environment = dict(os.environ)
        self.calibrated = None
        # The folder of an NVRTC that is asked only for what the bundle lacks; empty where the loader finds it.
        self.compiler = None
        self.results = {"small": small, "parts": {}}
        for name in ("logs", "traces", "plans"):
            (out / name).mkdir(parents=True, exist_ok=True)

    def seconds(self):
        return time.monotonic() - self.began

    def allow(self, seconds):
        """The next part may take so long, and what earlier ones left."""
        self.end += seconds

    def left(self):
        return self.end - self.seconds()

    def program(self, name):
        return str(self.folder / "bin" / name)

    def command(self, log, words, limit=None, environment=None):
        """Runs a command and all that it starts for `limit` seconds, or for what is left of the part's time."""
        done = self.once(log, words, limit, environment or {})
        if self.compiler is not None and done.code and "NVRTC" in done.stdout + done.stderr:
            print(f"{log}: the bundle lacks a kernel of it; again, by this machine's NVRTC", flush=True)
            return self.once(log, words, limit, {**(environment or {}), "MESHWRIGHT_NVRTC": self.compiler})
        return done

    def once(self, log, words, limit, environment):
        seconds = self.left() if limit is None else min(limit, self.left())
        if seconds < 1:
            raise LeftOut("no time left")
        began = time.monotonic()
        child = subprocess.Popen(
            [str(word) for word in words], cwd=self.out, env={**self.environment, **environment},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
            start_new_session=True)
        try:
            stdout, stderr = child.communicate(timeout=seconds)
            code = child.returncode
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            stdout, stderr = child.communicate()
            code = None
        done = Done(code, stdout, stderr, time.monotonic() - began)
        head = f"$ {' '.join(map(str, words))}\n# exit code {code}, {done.seconds:.1f} s\n"
        (self.out / "logs" / f"{log}.txt").write_text(head + stdout + stderr)
        return done

    def meshwright(self, log, *words, limit=None):
        """The JSON that the program prints, and the command."""
        done = self.command(log, [self.program("meshwright"), *words, "--json"], limit)
        try:
            return json.loads(done.stdout), done
        except ValueError:
            return None, done

    def save(self):
        (self.out / "results.json").write_text(json.dumps(self.results, indent=1) + "\n")
