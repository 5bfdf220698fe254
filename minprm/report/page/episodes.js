// Panel f: evaluation episodes as a chat, two arms side by side on the same task.

const EPISODES = {
  arms: [], // [{ run, arm }], every arm that has episodes
  left: 0, // numbers of the two arms on view
  right: null,
  seed: null,
  filter: "all",
  task: null, // number of the pair on view; at first one on which the arms disagree
  open: new Set(), // turns whose thoughts are unfolded
};

// What an episode may be looked up by. One of the two on view is enough.
const someTurn = (test) => (episode) => episode.turns.some(test);
const EPISODE_FILTERS = {
  lost: ["lost", (episode) => !episode.won],
  copied: ["action copied into the thought", someTurn((turn) => turn.copied)],
  unclosed: ["thought never closed", someTurn((turn) => turn.closed === false)],
  illegal: ["illegal action", someTurn((turn) => turn.valid === false)],
  outgrown: ["outgrew the context", (episode) => episode.outgrown],
};

function episodesPanel() {
  const kept = (DATA.episodes ?? []).filter((set) => set.episodes.length);
  if (!kept.length) return null;
  chooseFirstArms(kept);
  const box = make("div", { class: "episodes" });
  const draw = () => drawEpisodes(kept, box, draw);
  draw();
  return section(...episodeWords(EPISODES.right !== null), box);
}

// Title, what to see, how to read it.
function episodeWords(two) {
  const keys = "Arrow keys go from task to task.";
  if (!two) {
    const see =
      "Find a task that was lost, open its thoughts, and see at which turn it goes wrong.";
    return ["The tasks it played", see, `Filled circles are won. ${keys}`];
  }
  return [
    "The same tasks, two arms",
    "Find a task where one arm wins and the other loses, open both thoughts, and see where they part.",
    "Filled circles are won: the left one is the first arm. A filter counts the tasks on which " +
      `either arm did this. ${keys}`,
  ];
}

// The first arm against act_prm, or else against the last one.
function chooseFirstArms(kept) {
  const keys = unique(kept.map((set) => JSON.stringify([set.run, set.arm])));
  EPISODES.arms = keys.map((key) => JSON.parse(key)).map(([run, arm]) => ({ run, arm }));
  EPISODES.seed = kept[0].seed;
  if (EPISODES.arms.length < 2) return;
  const named = EPISODES.arms.findIndex(({ arm }) => arm === "act_prm");
  EPISODES.right = named > 0 ? named : EPISODES.arms.length - 1;
}

// --- which episodes ---

// The episodes of an arm on the seed on view, or on its first seed where it has no such.
function episodesOf(kept, number) {
  if (number === null) return null;
  const { run, arm } = EPISODES.arms[number];
  const sets = kept.filter((set) => set.run === run && set.arm === arm);
  return sets.find((set) => set.seed === EPISODES.seed) ?? sets[0];
}

// [{ task, pair: [episode or undefined, ...] }]: the tasks that the arms on view played. In another
// world the same number is another task.
function pairsOf(sets) {
  const key = (set, episode) => worldOf(DATA.runs[set.run]) + episode.task;
  const byTask = sets.map(
    (set) => new Map(set.episodes.map((episode) => [key(set, episode), episode])),
  );
  const keys = unique(byTask.flatMap((map) => [...map.keys()]));
  return keys.map((each) => {
    const pair = byTask.map((map) => map.get(each));
    return { task: pair.find(known).task, pair };
  });
}

function disagree({ pair }) {
  return pair.length === 2 && known(pair[0]) && known(pair[1]) && pair[0].won !== pair[1].won;
}

// [{ value, words, test }] for the filters; test({ pair }).
function episodeFilters(two) {
  const filters = [{ value: "all", words: "all", test: () => true }];
  if (two) filters.push({ value: "disagree", words: "one won, one lost", test: disagree });
  for (const [value, [words, test]] of Object.entries(EPISODE_FILTERS)) {
    filters.push({ value, words, test: ({ pair }) => pair.filter(known).some(test) });
  }
  return filters;
}

function drawEpisodes(kept, box, draw) {
  const sets = [EPISODES.left, EPISODES.right]
    .map((number) => episodesOf(kept, number))
    .filter(known);
  const pairs = pairsOf(sets);
  const filters = episodeFilters(sets.length > 1);
  if (!filters.some(({ value, test }) => value === EPISODES.filter && pairs.some(test)))
    EPISODES.filter = "all";
  const { test } = filters.find(({ value }) => value === EPISODES.filter);
  if (EPISODES.task === null) showTask(Math.max(pairs.findIndex(disagree), 0));
  if (!pairs[EPISODES.task] || !test(pairs[EPISODES.task])) showTask(pairs.findIndex(test));
  refill(
    box,
    armChoice(kept, sets, draw),
    filterChoice(filters, pairs, draw),
    taskChoice(pairs, test, sets, draw),
    chatOf(pairs[EPISODES.task], sets),
  );
}

function showTask(number) {
  EPISODES.task = number;
  EPISODES.open.clear();
}

// --- the choices ---

function armChoice(kept, sets, draw) {
  const several = unique(EPISODES.arms.map(({ run }) => run)).length > 1;
  const words = ({ run, arm }) => clean(arm) + (several ? ` · ${runName(run)}` : "");
  const options = EPISODES.arms.map((arm, i) => [i, words(arm)]);
  const one = (key, label) =>
    choiceList(label, options, EPISODES[key], setter(EPISODES, key, draw));
  const seeds = unique(kept.map((set) => set.seed));
  const pickSeed = setter(EPISODES, "seed", draw);
  const seedOptions = seeds.map((seed) => [seed, `seed ${seed}`]);
  const other = sets
    .filter((set) => set.seed !== EPISODES.seed)
    .map((set) => `${clean(set.arm)} is of seed ${set.seed}`);
  return make(
    "div",
    { class: "whose" },
    one("left", "first arm"),
    EPISODES.right === null
      ? null
      : [make("span", { class: "key" }, "against"), one("right", "second arm")],
    seeds.length > 1
      ? choiceList("seed of the episodes", seedOptions, EPISODES.seed, pickSeed)
      : null,
    other.length ? make("span", { class: "key" }, other.join(", ")) : null,
  );
}

function filterChoice(filters, pairs, draw) {
  const options = filters.map(({ value, words, test }) => {
    const count = pairs.filter(test).length;
    return [value, `${words} ${count}`, count === 0];
  });
  return choiceRow("which tasks", options, EPISODES.filter, setter(EPISODES, "filter", draw));
}

function taskChoice(pairs, test, sets, draw) {
  const buttons = [...pairs.keys()]
    .filter((i) => test(pairs[i]))
    .map((i) => taskButton(pairs[i], i, sets, draw));
  return arrowKeys(
    make("div", { class: "task-row", role: "group", "aria-label": "tasks" }, buttons),
  );
}

function taskButton({ task, pair }, i, sets, draw) {
  const ends = pair.map((episode, k) => `${clean(sets[k].arm)} ${endOf(episode)}`).join(", ");
  const on = i === EPISODES.task;
  const click = () => {
    showTask(i);
    draw();
  };
  const dots = pair.map((episode) =>
    make("i", { class: episode ? (episode.won ? "won" : "") : "none" }),
  );
  return make(
    "button",
    {
      "aria-pressed": String(on),
      tabindex: on ? 0 : -1,
      "aria-label": `task ${i + 1}: ${ends}`,
      title: `task ${clean(task).slice(0, 80)}`,
      on: { click },
    },
    String(i + 1),
    make("span", { "aria-hidden": "true" }, dots),
  );
}

const endOf = (episode) =>
  !episode ? "not kept" : episode.won ? "won" : episode.outgrown ? "outgrew the context" : "lost";

// --- the chat ---

function chatOf({ task, pair }, sets) {
  const turns = Math.max(...pair.map((episode) => episode?.turns.length ?? 0));
  const heads = pair.map((episode, k) =>
    make("div", { class: "side-head" }, text(sets[k].arm), " ", make("b", {}, endOf(episode))),
  );
  const rows = [...Array(turns).keys()].map((t) =>
    chatTurn(
      pair.map((episode) => episode?.turns[t]),
      t,
      sets,
    ),
  );
  const chat = make("div", { class: `turns ${pair.length > 1 ? "two" : ""}` }, heads, rows);
  const folds = () => chat.querySelectorAll("details.thought");
  const named = make(
    "div",
    { class: "task-name" },
    make("span", { class: "key" }, "task "),
    text(task),
  );
  const all = make(
    "button",
    { class: "plain", on: { click: () => toggleAll(folds()) } },
    "open or fold all thoughts",
  );
  return [make("div", { class: "chat-top" }, named, all), chat];
}

function toggleAll(folds) {
  const open = [...folds].some((fold) => !fold.open);
  for (const fold of folds) fold.open = open;
}

// One turn of both: the state once where it is the same, then what each thought and did.
function chatTurn(turns, t, sets) {
  const [a, b] = turns;
  const same = turns.every((turn) => turn && turn.state === a?.state);
  const parted = a && b && a.action !== b.action;
  const head = make(
    "div",
    { class: "turn" },
    make(
      "span",
      { class: "key" },
      `turn ${t + 1}`,
      parted ? make("b", {}, "they act differently") : null,
    ),
    same ? stateText(a) : null,
  );
  const sides = turns.map((turn, k) =>
    chatSide(turn, turns[1 - k], { t, arm: sets[k].arm, two: turns.length > 1, state: !same }),
  );
  return [head, sides];
}

function chatSide(turn, other, { t, arm, two, state }) {
  const name = two ? make("div", { class: "side-name" }, clean(arm)) : null;
  if (!turn) return make("div", { class: "side" }, name, make("span", { class: "small" }, "over"));
  return make(
    "div",
    { class: "side" },
    name,
    state ? stateText(turn) : null,
    thoughtFold(turn, other, t),
    actionLine(turn),
  );
}

const stateText = (turn) => make("div", { class: "state-text" }, longText(turn.state));

// Opening a thought opens the one beside it.
function thoughtFold(turn, other, t) {
  if (!known(turn.thought)) return make("div", { class: "small" }, "no thought");
  const notes = [
    turn.copied ? "copies the action" : null,
    turn.closed === false ? "never closed" : null,
  ];
  const words = [
    known(turn.tokens) ? `thought, ${plural(turn.tokens, "token")}` : "thought",
    ...notes.filter(known),
  ];
  const fold = make(
    "details",
    { class: "thought", "data-turn": t, open: EPISODES.open.has(t) },
    make("summary", {}, words.join(", ")),
    make("div", { class: "thought-text" }, compared(turn.thought, other?.thought)),
  );
  fold.addEventListener("toggle", () => {
    for (const each of fold.closest(".turns")?.querySelectorAll(`details[data-turn="${t}"]`) ?? [])
      each.open = fold.open;
    if (fold.open) EPISODES.open.add(t);
    else EPISODES.open.delete(t);
  });
  return fold;
}

// A thought, its first word that the other one does not have there underlined.
function compared(words, other) {
  if (!words) return text("(empty)");
  if (!known(other) || other === words) return text(words);
  const mine = words.split(/(?<=\s)/);
  const theirs = other.split(/(?<=\s)/);
  const at = mine.findIndex((word, i) => word.trim() !== theirs[i]?.trim());
  if (at < 0) return text(words);
  const before = clean(mine.slice(0, at).join(""));
  const after = clean(mine.slice(at + 1).join(""));
  const mark = make(
    "span",
    { class: "parts-here", title: "here they part" },
    clean(mine[at].trimEnd()),
  );
  return make("span", { class: "text" }, before, mark, after ? ` ${after}` : "");
}

function actionLine(turn) {
  const right = turn.right ?? null;
  const verdict = {
    true: "as the expert",
    false: ["the expert: ", text(turn.expert ?? "–")],
    null: null,
  }[right];
  const notes = [
    turn.valid === false ? "illegal" : null,
    verdict,
    turn.reward ? `reward ${share(turn.reward)}` : null,
  ];
  return make(
    "div",
    {
      class: `action ${right === false ? "differs" : ""} ${turn.valid === false ? "illegal" : ""}`,
    },
    text(didOf(turn)),
    notes.filter(known).map((note) => make("span", { class: "key" }, note)),
  );
}
