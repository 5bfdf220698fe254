"""modal run modal_train.py [--gpu H100] [train.py's flags]: the same command on a rented GPU.

With --gpu H100:4 it runs in four processes, by torchrun. Runs, checkpoints and the Hugging Face
cache live in volumes. After every snapshot (with several GPUs: every minute) the volume is
committed, and a container that is lost is started again and goes on from there. A file after
--demos, --config, --few-shot or --instruction travels along, and so does one with a world, a
reward or an advantage. For gated models: a Modal secret with HF_TOKEN, its name in the environment
variable MINPRM_SECRET.

    modal volume get minprm-runs runs/<run>        what a run left
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import modal

WORK = Path("/minprm")
EXTRAS = ["vllm", "lora"]
SECRET = os.environ.get("MINPRM_SECRET")
runs = modal.Volume.from_name("minprm-runs", create_if_missing=True)
models = modal.Volume.from_name("minprm-huggingface", create_if_missing=True)
image = (
    modal.Image.debian_slim(python_version="3.11")
    .pip_install_from_pyproject(str(Path(__file__).with_name("pyproject.toml")), EXTRAS)
    .add_local_python_source("minprm", ignore=[])  # the page's files too, which are no Python
)
# flags whose value is a file, if it ends like one: others are texts, or names of ours
MAY_NAME_FILES = (
    "--few-shot", "--instruction", "--world", "--act-prm.reward", "--act-prm.advantage",
    "--rl.reward", "--rl.advantage",
)  # fmt: skip
MINUTE = 60  # seconds between two commits, where other processes write the snapshots
SUFFIXES = (".jsonl", ".json", ".txt", ".md", ".py")
app = modal.App("minprm", image=image)


@app.function(
    gpu="H100",
    timeout=24 * 3600,
    retries=modal.Retries(max_retries=5, initial_delay=10.0),
    volumes={str(WORK): runs, "/root/.cache/huggingface": models},
    secrets=[modal.Secret.from_name(SECRET)] if SECRET else [],
)
def train(flags: list[str], files: dict[str, bytes], processes: int) -> None:
    """One try; the next one finds the run and resumes it."""
    body(flags, files, WORK, runs.commit, processes)
    runs.commit()


def body(
    flags: list[str],
    files: dict[str, bytes],
    work: Path,
    on_save: Callable[[], None] = lambda: None,
    processes: int = 1,
) -> None:
    """What runs in the container, and in the test."""
    from minprm.commands.train import main as run

    os.chdir(work)
    for name, content in files.items():
        Path(name).write_bytes(content)
    name = flags[flags.index("--run") + 1]
    started = Path("runs", name, "config.json").exists()
    flags = ["--run", name, "--resume"] if started else flags
    if processes == 1:
        run(flags, on_save)
    else:
        torchrun(processes, flags, on_save)


def torchrun(processes: int, flags: list[str], on_save: Callable[[], None]) -> None:
    """`minprm train` in several processes. None of them is this one, which alone can commit: so it
    does that every minute. At any moment each file is whole, or one that is not looked at."""
    import minprm

    package = Path(minprm.__file__).parents[1]
    path = os.pathsep.join([str(package), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += [f"--nproc-per-node={processes}", "-m", "minprm", "--", "train", *flags]
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}) as running:
        try:
            while running.poll() is None:
                with suppress(subprocess.TimeoutExpired):
                    running.wait(MINUTE)
                on_save()
        except KeyboardInterrupt:  # the container is taken away: they save, and end
            running.send_signal(signal.SIGINT)
            running.wait()
            on_save()
            raise
    if running.returncode:
        raise SystemExit(running.returncode)


def processes_on(gpu: str) -> int:
    """One for each GPU.

    >>> processes_on("H100:4"), processes_on("A100-80GB")
    (4, 1)
    """
    return int(gpu.partition(":")[2] or 1)


def packed(arguments: list[str]) -> tuple[str, list[str], dict[str, bytes]]:
    """(GPU, train.py's flags with a run's name, the files that they name)."""
    flags = list(arguments)
    gpu = "H100"
    if "--gpu" in flags:
        at = flags.index("--gpu")
        gpu = flags[at + 1]
        del flags[at : at + 2]
    if "--run" not in flags:
        flags += ["--run", time.strftime("modal-%Y%m%d-%H%M%S")]
    files = {}
    for key in ("--demos", "--config"):
        if key in flags:
            at = flags.index(key) + 1
            path = Path(flags[at])
            if not path.is_file():
                raise SystemExit(f"{key} {path}: what travels is one file; write all into one")
            flags[at] = path.name
            files[path.name] = path.read_bytes()
    for key in MAY_NAME_FILES:
        if key in flags:
            at = flags.index(key) + 1
            file, _, function = flags[at].rpartition(":")
            if not file.endswith(".py"):
                file, function = flags[at], ""
            path = Path(file)
            if path.suffix in SUFFIXES:
                flags[at] = f"{path.name}:{function}" if function else path.name
                files[path.name] = path.read_bytes()
    return gpu, flags, files


@app.local_entrypoint()
def main(*arguments: str) -> None:
    """All flags of train.py, and --gpu."""
    gpu, flags, files = packed(list(arguments))
    train.with_options(gpu=gpu).remote(flags, files, processes_on(gpu))
