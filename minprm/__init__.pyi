# The names of __init__.py for type checkers and editors.
from minprm.arms.evaluation import evaluate as evaluate
from minprm.arms.evaluation import load_agent as load_agent
from minprm.arms.ladder import start as start
from minprm.commands.train import go_on as go_on
from minprm.constants import Config as Config
from minprm.data import Demo as Demo
from minprm.data import Sample as Sample
from minprm.data import Step as Step
from minprm.envs.base import World as World
from minprm.logs.reader import read_logs as read_logs
from minprm.look.log import Log as Log
from minprm.model.agent import Agent as Agent
from minprm.stages.act_prm import credit as credit
from minprm.stages.act_prm import outcomes as outcomes
from minprm.stages.act_prm import to_samples as to_samples
from minprm.stages.act_prm import walk_logs as walk_logs
from minprm.trainer import Run as Run
from minprm.trainer import learn as learn

__version__: str
HOMES: dict[str, tuple[str, ...]]
