// Panel a: the group of one state, best first, before each update at which it was recorded.

function groupPanel() {
  const facts = make("dl", { class: "state" });
  const strip = radioGroup("strip", "recorded updates", ["ArrowLeft", "ArrowRight"]);
  const heads = make("div", { class: "heads key" });
  const rows = radioGroup("rows", "the group", ["ArrowUp", "ArrowDown"]);
  const turns = make("div", { class: "turns" });
  const words = {
    title: make("span"),
    see: make("span"),
    how: make("span"),
    fine: make("p", { class: "small fine" }),
  };
  const rowOf = rowMaker();
  listeners.push((what) => {
    if (what === "token") return;
    sayGroup(words);
    drawFacts(facts);
    drawStrip(strip);
    drawHeads(heads);
    drawRows(rows, rowOf, what === "frame");
    drawTurns(turns);
  });
  whenSized(strip, () => drawStrip(strip));
  return section(words.title, words.see, words.how, facts, strip, heads, rows, turns, words.fine);
}

function radioGroup(style, label, keys) {
  const box = make("div", { class: style, role: "radiogroup", "aria-label": label });
  return arrowKeys(box, { keys, picks: true });
}

// --- words ---

function sayGroup({ title, see, how, fine }) {
  const said = isRL() ? ofEpisodes() : ofThoughts();
  fill(title, said.title);
  fill(see, said.see);
  fill(how, said.how);
  fill(fine, said.fine);
}

function ofEpisodes() {
  return {
    title: "One task, its group of episodes",
    see: "Move the slider and watch whether more episodes of a group are paid.",
    how: [
      "Each column is the group before one update, a bar an episode, blue by its reward. ",
      "Each batch plays other tasks, so columns differ by their tasks too.",
    ],
    fine: [
      compares()
        ? "A group whose episodes all earn the same teaches nothing: no episode is better than another. "
        : null,
      hasCritic() || isDense() ? "The advantage of a row is that of its first token. " : null,
      settings().groups ? "An advantage is multiplied by the weight of its group. " : null,
      `“${movedName()}” is what the update did to all that the agent drew.`,
    ],
  };
}

function ofThoughts() {
  return {
    title: "One state, its group of thoughts",
    see: "Move the slider and watch whether thoughts after which the expert’s action is likely take the group over.",
    how: [
      "Each column is the group before one update, a bar a thought, blue by its reward. ",
      "The same random numbers draw all columns: what changes is the model.",
    ],
    fine: [
      (settings().continues ?? "best") === "best"
        ? "▸ marks the committed thought: the next step of this log would read it. "
        : "▸ marks committed thoughts: a path goes on from each, and reads it at the next step of the log. ",
      hasBaseline()
        ? "b is the reward of this step without a thought: a thought that adds nothing to it weighs nothing. "
        : null,
      advantageName() === "posterior" && !isResampled() && !hasBaseline()
        ? "G is the size of the group, Σ r the sum of its rewards. A compares within the group alone: even its best thought may be worse than none. "
        : null,
      settings().thoughts_from === "state_action"
        ? "Training draws its thoughts with the expert’s action in view; these are drawn from the state alone, as when the model acts. "
        : null,
      `“${movedName()}” is what the update did. It learned from a whole batch of logs. All probabilities sum to 1: where one thought rises more, another with a small push can fall. `,
      settings().patience
        ? "The last group was drawn by the weights that the stage leaves: those of its best look. "
        : null,
      theState().frames.some(({ group }) => group.some((z) => z.kind))
        ? "The word under a thought is a label that the world gives it. Training does not use it."
        : null,
    ],
  };
}

const FROM = {
  "training log": "a training log",
  "held out": "a held-out log: no update learns from it",
  batch: "a task of this update’s batch",
};

function drawFacts(facts) {
  const { text: state, action, task, where } = shown();
  const { relabelled } = theState();
  const from = Object.hasOwn(FROM, where) ? FROM[where] : clean(where);
  const facing = (name, ...words) => [make("dt", {}, name), make("dd", {}, words)];
  fill(
    facts,
    facing(isRL() ? "first state" : "state", longText(state)),
    action ? facing("the expert did", longText(action)) : null,
    relabelled
      ? facing("its log got", longText(relabelled.thought), `, r(z) ${share(relabelled.reward)}`)
      : null,
    facing("from", make("span", { class: "from" }, `${clean(task)}, ${from}`)),
  );
}

// --- the strip: all recorded groups at once ---

function drawStrip(strip) {
  const frames = theState().frames;
  const room = strip.clientWidth / 42;
  const columns = frames.map((frame, i) =>
    stripColumn(frame, i, isLabelled(i, frames.length, room)),
  );
  const tag = make(
    "div",
    { class: "tag", "aria-hidden": "true" },
    make("span", { class: "n" }, goodWords()),
    make("span", {}, "before update"),
  );
  const height = Math.max(1.5, Math.min(9, 90 / frames[0].group.length - 2));
  strip.style.setProperty("--h", `${height}px`);
  refill(strip, tag, columns);
}

function stripColumn(frame, i, labelled) {
  const rewards = frame.group.map((z) => z.reward).sort((a, b) => b - a);
  const count = `${frame.group.filter(good).length}/${frame.group.length}`;
  const here = i === VIEW.frame;
  return make(
    "button",
    {
      role: "radio",
      "aria-checked": String(here),
      "aria-label": `before update ${frame.update}: ${count} ${goodWords()}`,
      tabindex: here ? 0 : -1,
      on: { click: () => show("frame", i) },
    },
    rewards.map((r) => make("b", { css: { "--k": `${100 * Math.min(Math.max(r, 0), 1)}%` } })),
    make("span", { class: "n" }, labelled ? count : ""),
    make("span", {}, labelled ? String(frame.update) : "·"),
  );
}

// --- the rows: one a thought or an episode ---

function drawHeads(heads) {
  const still = advantages(theFrame().group).every((a) => known(a) && Math.abs(a) < 1e-6);
  fill(
    heads,
    make("div", {}, isRL() ? "episode, best first" : "thought z, best first"),
    make("div", {}, rewardName()),
    make("div", {}, formula()),
    make("div", {}, movedName()),
    still
      ? make("div", { class: "still" }, "Every advantage is 0: this group moves nothing.")
      : null,
  );
}

const chanceName = () => (isLong() ? "p a token" : isRL() ? "p(tokens)" : "p(z)");
const movedName = () => `${chanceName()} → after`;

function rewardName() {
  if (isRL()) return "reward r";
  const { reward, reward_span: span } = settings();
  return reward === "action_prob" && !span ? "r(z) = p(a | s, z)" : "reward r(z)";
}

// Rows are kept from draw to draw, by place in the group, so that they can be seen to move.
function rowMaker() {
  const made = new Map();
  return (i) => {
    if (made.has(i)) return made.get(i);
    const parts = {
      words: make("div", { class: "words" }),
      reward: meter("r"),
      advantage: meter("A"),
      moved: make("div", { class: "moved" }),
    };
    const properties = { class: "row", role: "radio", on: { click: () => show("thought", i) } };
    parts.row = make("button", properties, Object.values(parts));
    made.set(i, parts);
    return parts;
  };
}

function drawRows(rows, rowOf, moves) {
  const { group } = theFrame();
  const order = ranked(group);
  const scales = [rewardScale(), advantageScale()];
  const weights = advantages(group);
  const tops = new Map([...rows.children].map((row) => [row, row.getBoundingClientRect().top]));
  const list = order.map((i, rank) => {
    const parts = rowOf(i);
    const twin = rank > 0 && group[order[rank - 1]].thought === group[i].thought && !isRL();
    drawRow(parts, group[i], { on: i === chosen(), twin });
    setMeter(parts.reward, group[i].reward, scales[0], share(group[i].reward));
    setMeter(parts.advantage, weights[i], scales[1], number(weights[i]));
    return parts.row;
  });
  rows.classList.toggle("long", isLong());
  reorder(rows, list);
  if (moves && !CALM.matches) slide(list, tops);
}

function drawRow(parts, z, { on, twin }) {
  parts.row.setAttribute("aria-checked", String(on));
  parts.row.tabIndex = on ? 0 : -1;
  parts.row.classList.toggle("twin", twin && !on);
  const words = isRL() ? z.turns.map(didOf).join(" → ") : z.thought;
  fill(parts.words, text(words || "(empty)"), make("span", { class: "why" }, remarks(z, twin)));
  drawMoved(parts.moved, z);
}

// What is to be said of a thought or an episode, in a line.
function remarks(z, twin) {
  const said = [];
  if (isRL()) {
    said.push(`${z.won ? "won" : "lost"}, ${plural(z.turns.length, "turn")}`);
    const unreadable = z.turns.filter((turn) => turn.unreadable).length;
    if (unreadable) said.push(`${unreadable} unreadable`);
  }
  if (twin) said.push("the same again");
  else if (z.kind) said.push(good(z) ? make("em", {}, kindOf(z)) : kindOf(z));
  if (z.closed === false && isRL()) said.push("a thought never closed");
  else if (z.closed === false)
    said.push(`${z.cut === false ? "ended the turn" : "never closed"}: earns nothing`);
  else if (z.usable === false) said.push("holds a control token: earns nothing");
  if (z.copied) said.push("copies the action");
  if (z.committed) said.push(make("strong", {}, "▸ committed"));
  return said.flatMap((part, i) => (i ? [" · ", part] : [part]));
}

// The probability of a thought before the update, after it, and by what it was multiplied.
function drawMoved(box, z) {
  const [before, after] = thoughtChances(z);
  const factor = before && after !== null ? after / before : null;
  const way = factor === null || Math.abs(factor - 1) < 0.005 ? "" : factor > 1 ? "up" : "down";
  box.dataset.name = chanceName();
  fill(
    box,
    make("span", {}, share(before), after === null ? null : ` → ${share(after)}`),
    factor === null ? null : make("span", { class: `by ${way}` }, `× ${number(factor)}`),
  );
}

// --- bars ---

// The ends of a scale that holds these values in all recorded groups, so that bars can be compared.
function scaleOf(values, least) {
  const numbers = values.flat().filter(known);
  return [Math.min(0, ...numbers), Math.max(least, ...numbers)];
}

const rewardScale = () =>
  scaleOf(
    theState().frames.map(({ group }) => group.map((z) => z.reward)),
    1,
  );
const advantageScale = () =>
  scaleOf(
    theState().frames.map(({ group }) => advantages(group)),
    0.01,
  );

function meter(name) {
  const rail = make("span", { class: "rail" }, make("i"), make("u"));
  return make(
    "div",
    { class: `meter ${name}`, "data-name": name },
    rail,
    make("span", { class: "num" }),
  );
}

function setMeter(box, v, [low, high], label) {
  const at = (x) => (100 * (x - low)) / (high - low);
  const [bar, zero] = box.querySelectorAll("i, u");
  bar.classList.toggle("neg", v < 0);
  bar.style.left = `${at(Math.min(v ?? 0, 0))}%`;
  bar.style.width = `${Math.abs(at(v ?? 0) - at(0))}%`;
  zero.style.left = `${at(0)}%`;
  box.querySelector(".num").textContent = label;
}

// --- rows that move ---

// Puts rows in a new order. The one that has the focus keeps it.
function reorder(rows, list) {
  const same =
    list.length === rows.children.length && list.every((row, i) => rows.children[i] === row);
  if (same) return;
  const focused = document.activeElement;
  fill(rows, list);
  if (rows.contains(focused)) focused.focus({ preventScroll: true });
}

// Each row glides from where it was to where it is: selection, seen.
function slide(list, tops) {
  for (const row of list) {
    if (!tops.has(row)) continue;
    const way = tops.get(row) - row.getBoundingClientRect().top;
    const from = { transform: `translateY(${way}px)` };
    const timing = { duration: 380, easing: "cubic-bezier(.2, .7, .2, 1)" };
    if (way) row.animate([from, { transform: "none" }], timing);
  }
}

// --- RL: the chosen episode, turn by turn ---

function drawTurns(box) {
  const z = theFrame().group[chosen()];
  if (!isRL() || !z) return fill(box);
  const title = `the episode chosen above, ${z.won ? "won" : "lost"}, turn by turn`;
  return fill(box, make("div", { class: "key" }, title), z.turns.map(drawTurn));
}

function drawTurn(turn, i) {
  const paid = known(turn.reward) ? `paid ${number(turn.reward)}` : "";
  return make(
    "div",
    { class: "episode-turn" },
    make("div", { class: "key" }, `turn ${i + 1}`),
    make(
      "dl",
      {},
      make("dt", {}, "the world"),
      make("dd", { class: "world-said" }, longText(turn.state)),
      make("dt", {}, "thought"),
      make("dd", {}, turn.thought ? longText(turn.thought, 240) : "none"),
      make("dt", {}, "action"),
      make(
        "dd",
        { class: "did" },
        longText(didOf(turn)),
        make("span", { class: "key" }, paid),
      ),
    ),
  );
}
