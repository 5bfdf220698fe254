"""Which groups are kept for people to look at: the same states again and again, or a batch's tasks.

Act-PRM draws thoughts about a few watched states, at looks that grow sparser and always with the
same noise: so selection is seen to happen. RL shows episodes that it has played anyway. Neither
draws anything that training draws, nor moves a weight. What is noted of a group: notes.py.
"""

from collections.abc import Callable
from dataclasses import replace

from minprm.constants import ActPRM, Config
from minprm.data import Demo, Sample
from minprm.envs import make_world
from minprm.envs.base import World
from minprm.look.notes import (
    ACTION,
    DRAWN,
    GROUP_TOKENS,
    STATE,
    STOP,
    TAG,
    THOUGHT,
    Notes,
    short,
    state_text,
    with_tokens,
)
from minprm.play import Episode, forced_opening, task_name
from minprm.run.events import Began, Event, Grouped, Learned, Played, Updated
from minprm.run.randomness import noise_seed
from minprm.stages.act_prm import Group, Thought, Walk, credit, outcomes, to_samples, walk_logs
from minprm.text.actions import copies
from minprm.text.chat import Chat
from minprm.trainer import Run


def recorded_before(update: int) -> bool:
    """Are groups recorded before this update? Most of what can be seen happens early.

    >>> [update for update in range(200) if recorded_before(update)]
    [0, 1, 2, 5, 10, 15, 20, 30, 40, 60, 80, 120, 160]
    """
    if update < 3:
        return True
    apart = 5
    while update > 4 * apart:
        apart *= 2
    return update % apart == 0


class Recorder:
    """The listener: it keeps groups of the stage that runs, where it is Act-PRM or RL."""

    def __init__(self):
        self.notes: Notes | None = None  # of the look before this update
        self.updates = 0  # of this stage, so far

    def __call__(self, run: Run, event: Event) -> None:
        if not run.cfg.watch:
            return
        match event:
            case Began():
                self.notes = None
                self.updates = event.first
            case Grouped() if recorded_before(event.update):
                self.notes = note_states(run, event.stage_id, event.cfg, event.update)
            case Played() if _is_due(run, event.update):
                self.notes = note_tasks(run, event)
            case Updated():
                self.updates = event.update + 1
                if self.notes:
                    self.notes.read_after()
                    self.notes.tell()
                self.notes = None
            case Learned(cfg=ActPRM() as cfg):  # the last look, at the weights that are left
                note_states(run, event.stage_id, cfg, self.updates).tell()


# --- Act-PRM: first steps of logs; of resampled paths, every step of the first held-out log -------


def note_states(run: Run, stage_id: str, cfg: ActPRM, update: int) -> Notes:
    """Groups of the watched states, drawn and read by the present weights."""
    demos = watched_demos(run, cfg)
    # the thoughts that the agent will have when it acts, also where training shows the action
    cfg = replace(cfg, thoughts_from="state")
    notes = Notes(run, stage_id, update)
    seed = noise_seed(run.seed, "watched", 0)  # the same at every look
    walks, groups = walk_logs(run.agent, demos, cfg, seed)
    outcomes(walks, cfg)
    credit(groups, cfg)
    for number, walk in enumerate(walks):
        to_its_end = number == 1 and cfg.continues == "resample"
        for t in range(len(walk.groups) if to_its_end else 1):
            notes.rows.append(_state_row(notes, cfg, number, walk, t))
    # the expert's action is read by the model whose probability is the reward
    notes.read_before(by_base=cfg.reward != "exact_match" and cfg.scored_by == "base")
    return notes


def _state_row(notes: Notes, cfg: ActPRM, number: int, walk: Walk, t: int) -> dict:
    """The line of one group. Of later steps it has no tokens: there it is about the paths."""
    chat = notes.run.agent.chat
    group = walk.groups[t]
    entries = [_thought(chat, cfg, walk, t, z) for z in group.thoughts]
    classify = classifier(notes.run.cfg, walk.demo, t)
    if classify:
        for entry in entries:
            entry["kind"] = classify(entry["thought"])
    first = group.paths[0].history
    without_thought = None
    if t == 0:
        _note_tokens(notes, cfg, group, entries)
        if len(group.action) <= GROUP_TOKENS:
            opening = chat.opening(None, group.step.action)
            bare = Sample(parent=first).extend(opening).extend(group.action, 0.0)
            without_thought = notes.action(group.action, bare)
    return {
        "watched": number,
        "where": "held out" if number else "training log",
        "task": walk.demo.task,
        "step": t,
        "state": state_text(group.step),
        "action": group.step.action,
        "prompt": notes.prompt(first.whole()),
        "group": entries,
        "without_thought": without_thought,
        "reward": cfg.reward,
    }


def _thought(chat: Chat, cfg: ActPRM, walk: Walk, t: int, z: Thought) -> dict:
    """What is noted of a thought of step t beside its tokens."""
    group = walk.groups[t]
    text = chat.text(z.ids)
    last = t + 1 == len(walk.groups)
    paths = walk.paths if last else walk.groups[t + 1].paths  # that lead on from this step
    up = descendants = None
    if cfg.continues == "resample":
        descendants = sum(path.thoughts[t] is z for path in walk.paths)
        if t:
            up = [y is z.path.thoughts[-1] for y in walk.groups[t - 1].thoughts].index(True)
    return {
        "thought": text,
        "kind": None,
        "reward": short(z.reward),
        "advantage": short(z.advantage),
        "action_weight": short(z.action_weight),
        "usable": z.usable,
        "closed": z.closed,
        "cut": z.cut,
        "copied": copies(text, group.step.action, group.step.observation()),
        "committed": any(path.thoughts[t] is z for path in paths),
        "tokens": None,
        "action": None,
        "up": up,
        "descendants": descendants,
    }


def _note_tokens(notes: Notes, cfg: ActPRM, group: Group, entries: list[dict]) -> None:
    """Writes `tokens` and `action` into the entries, as far as they are kept."""
    chat = notes.run.agent.chat
    # whatever is trained on, all of a turn is read: what no loss is taken of moves as well
    samples = to_samples([group], chat, replace(cfg, trained_on="thought_action"), 0)
    # the roles of which training takes a loss, where the thought stands before the action
    learned = THOUGHT + STOP + ("" if cfg.trained_on == "thought" else ACTION)
    if cfg.trained_on == "action_first":
        learned = ""
    after = len([*group.action, *chat.act_end, *chat.end])
    rewards = [z.reward for z in group.thoughts]
    for i in with_tokens([len(sample.ids) for sample in samples], rewards):
        z = group.thoughts[i]
        sample = samples[i]
        roles = roles_of(z, group.action, chat)
        advantages = []
        for role, number in zip(roles, sample.advantages, strict=True):
            advantages.append(number if role in learned else None)
        entries[i]["tokens"] = notes.turn(sample.ids, roles, advantages, sample.logprobs, [sample])
        if z.closed:
            # the same turn, in which the tokens of the expert's action alone are read
            begin = len(sample.ids) - after
            read = Sample(parent=sample.parent).extend(sample.ids[:begin])
            entries[i]["action"] = notes.action(group.action, read.extend(group.action, 0.0))


def watched_demos(run: Run, cfg: ActPRM) -> list[Demo]:
    """The first log to learn from, then held-out logs of different tasks; --watch of them.

    Where a thought's advantage depends on later steps, logs are walked to their end. That takes as
    long as their steps, so two of them have to do.
    """
    demos = run.train_demos[:1]
    for demo in run.held_out:
        if demo.task not in {other.task for other in demos}:
            demos.append(demo)
    demos = demos[: run.cfg.watch]
    if cfg.continues != "best":
        return demos[:2]
    return [demo.until(1) if len(demo.steps) > 1 else demo for demo in demos]


def roles_of(z, action: list[int], chat: Chat) -> str:
    """The role of each token of a thought and the expert's action after it.

    Of the tokens that end a thought the first alone is drawn; the others are learned with the
    action.
    """
    stop = z.sampled[len(z.ids) :]
    roles = TAG * len(chat.think) + THOUGHT * len(z.ids) + STOP * len(stop)
    if z.closed:
        after = [*chat.think_end[1:], *chat.act, *action, *chat.act_end, *chat.end]
        roles += ACTION * len(after)
    return roles


def classifier(cfg: Config, demo: Demo, t: int) -> Callable[[str], str] | None:
    """`World.classify` in the state of step t, where this log is one of the run's world.

    None: the world knows no kinds of thoughts, or the log is another one's.
    """
    world = make_world(cfg) if cfg.world else World()
    name, _, seed = demo.task.rpartition("-")
    if type(world).classify is World.classify or name != type(world).__name__:
        return None
    try:
        observation = world.reset(int(seed))
        for step in demo.steps[:t]:
            observation, *_ = world.step(step.action)
    except (ValueError, RuntimeError):  # no such task, or it was over before this step
        return None
    return world.classify if demo.steps[t].state[-1].get("content") == observation else None


# --- RL: the episodes of the first tasks of a batch -----------------------------------------------


def _is_due(run: Run, update: int) -> bool:
    """Tasks differ from batch to batch, so that looks close together would show nothing more."""
    return update + 1 == run.cfg.rl.updates or (update % 5 == 0 and recorded_before(update))


def note_tasks(run: Run, event: Played) -> Notes:
    """The episodes of the first tasks of a batch, read by the weights before the update."""
    notes = Notes(run, event.stage_id, event.update)
    for number, group in enumerate(event.groups[: run.cfg.watch]):
        notes.rows.append(_task_row(notes, number, group))
    notes.read_before()
    return notes


def _task_row(notes: Notes, number: int, group: list[Episode]) -> dict:
    """The line of one task: its episodes, whose tokens are kept where they are not too many."""
    entries = [_episode(e) for e in group]
    sizes = []
    for e in group:
        sizes.append(sum(len(turn.state) + len(turn.full) for turn in e.turns))
    for i in with_tokens(sizes, [sum(e.rewards) for e in group]):
        entries[i]["tokens"] = _episode_tokens(notes, group[i])
    e = max(group, key=lambda e: len(e.steps))  # one that was asked at all, if any was
    return {
        "watched": number,
        "where": "batch",
        "task": task_name(e.world),
        "step": 0,
        "state": state_text(e.steps[0]) if e.steps else "",
        "action": None,
        "prompt": notes.prompt(e.turns[0].state) if e.turns else None,
        "group": entries,
        "without_thought": None,
    }


def _episode_tokens(notes: Notes, e: Episode) -> dict:
    """The tokens of all turns, with the states between them."""
    opening = len(forced_opening(notes.run.agent))
    ids = []
    roles = ""
    advantages = []
    sampled = []
    for i, (turn, (sample, begin, end)) in enumerate(zip(e.turns, e.spans, strict=True)):
        state = turn.state if i else []  # the first is the prompt
        ids += [*state, *turn.full]
        ahead = STATE * len(state) + TAG * opening
        behind = TAG * (len(turn.full) - opening - (end - begin))
        roles += ahead + DRAWN * (end - begin) + behind
        before, after = [None] * len(ahead), [None] * len(behind)
        advantages += [*before, *sample.advantages[begin:end], *after]
        sampled += [*before, *sample.logprobs[begin:end], *after]
    return notes.turn(ids, roles, advantages, sampled, e.samples)


def _episode(e: Episode) -> dict:
    """What is noted of an episode beside its tokens."""
    turns = []
    for step, reward in zip(e.steps, e.rewards, strict=True):
        turn = {"thought": step.thought, "action": step.action, "reward": short(reward)}
        if step.unreadable:
            turn["unreadable"] = step.unreadable
        turns.append({"state": state_text(step), **turn})
    advantage = None
    if e.spans:
        sample, begin, _ = e.spans[0]
        advantage = short(sample.advantages[begin])
    return {
        "thought": "\n".join(step.thought for step in e.steps if step.thought),
        "turns": turns,
        "reward": short(sum(e.rewards)),
        "won": bool(e.world.success),
        "advantage": advantage,
        "tokens": None,
    }
