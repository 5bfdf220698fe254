"""What chapter 9 says of torchrun. For examples/slurm.sh, programs of the same names stand in for
those of a cluster."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from torch.distributed.run import get_args_parser

from minprm.commands import train
from minprm.commands.cli import parse
from shared.processes import Processes
from shared.serving import free_port

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "examples/slurm.sh"
JOB = {
    "SLURM_NNODES": "2",
    "SLURM_GPUS_ON_NODE": "1",
    "SLURM_JOB_ID": "7",
    "SLURM_JOB_NODELIST": "gpu[03-04]",
}
FLAGS = ["--preset", "smoke", "--stages", "demos", "--episodes", "3", "--run", "two machines"]


def submitted(folder: Path, srun: str, first: str, flags: list[str]) -> str:
    """What a job of these flags prints, where `srun` is this script."""
    tools = folder / "tools"
    tools.mkdir()
    for name, text in {"scontrol": f"echo {first}; echo gpu04", "srun": srun}.items():
        (tools / name).write_text(f"#!/bin/bash\n{text}\n")
        (tools / name).chmod(0o755)
    knobs = {**os.environ, **JOB, "PATH": f"{tools}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        ["bash", SCRIPT, *flags], cwd=ROOT, env=knobs, capture_output=True, text=True, timeout=100
    )
    assert not done.returncode, done.stderr
    return done.stdout


def test_the_line_of_the_job_is_understood_by_torchrun_and_the_flags_by_us(tmp_path):
    printed = submitted(
        tmp_path, 'echo $TORCH_ELASTIC_SHUTDOWN_TIMEOUT; printf "%q " "$@"', "gpu03", FLAGS
    )
    seconds, program, *words = shlex.split(printed)
    told = get_args_parser().parse_args(words)
    warning = int(re.search("--signal=TERM@(.*)", SCRIPT.read_text())[1])  # before the end
    assert 30 < int(seconds) < warning, "torchrun gives up before Slurm does, and not too soon"
    assert program == "torchrun"
    assert (told.nnodes, told.nproc_per_node) == ("2", "1")
    assert (told.rdzv_backend, told.rdzv_endpoint, told.rdzv_id) == ("c10d", "gpu03:29500", "7")
    assert told.training_script == "train.py"
    assert told.training_script_args == FLAGS
    assert parse(FLAGS).run == "two machines"


@pytest.mark.slow
def test_two_machines_of_the_job_make_one_run(tmp_path):
    """Both are this one. Each starts torchrun, and one of the two processes writes the logs."""
    both = f"""cd {tmp_path}
        set -- "${{@/:29500/:{free_port()}}}"
        set -- "${{@/#train.py/{ROOT}/train.py}}"
        "$@" & "$@" & wait -n && wait -n"""
    printed = submitted(tmp_path, both, "localhost", [*FLAGS[:-1], "two"])
    assert printed.count("3 logs") == 1
    assert len((tmp_path / "runs/two/demos.jsonl").read_text().splitlines()) == 3


def test_the_book_shows_the_file_as_it_is():
    page = (ROOT / "docs/parallel.md").read_text(encoding="utf-8")
    assert f"```sh\n{SCRIPT.read_text(encoding='utf-8')}```" in page


# --- a reward that is no function of its arguments ------------------------------------------------

BAD = """
import os
def restated(logp, thought, state, action):
    return 1.0 + len(thought) * int(os.environ["RANK"])
"""


@pytest.mark.slow
@pytest.mark.parametrize("few", [
    "--arms act_prm --num-demos 8 --held-out 2 --act-prm.batch 4 --act-prm.group 4",
    "--arms best_of_base --num-demos 64",
])  # fmt: skip
def test_processes_that_come_to_different_numbers_end(few, tmp_path):
    """One learns from other advantages, the other from other thoughts in the logs."""
    (tmp_path / "bad.py").write_text(BAD)
    flags = f"--preset smoke {few} --act-prm.reward bad.py:restated --run r".split()
    processes = Processes(tmp_path, 2, lambda: train.main(flags))
    assert any(processes.ended())
    said = processes.said()
    assert "the processes came to different advantages: what a world shows, or" in said
    assert "Traceback" not in said
    assert "2 processes share the work, each with all weights" in said
