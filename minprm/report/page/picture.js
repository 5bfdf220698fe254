// Panel c: the reward as a picture. The expert's action token by token, after different thoughts.

const FEW_TOKENS = 6; // of an action: each has a bar; longer ones are a line of text, with one bar
const SURE = 0.02; // a token that all rows give more than 1 - SURE is drawn narrow

const SEE_PICTURE =
  "Blue is the probability of the expert’s token. A thought that explains the action makes it 1, a wrong one gives it to another token.";

function picturePanel() {
  const grid = make("div");
  const [see, how] = [make("span"), make("span")];
  const panel = { grid, picked: null };
  listeners.push((what) => {
    if (what === "token") return;
    if (what === "look" || what === "state") panel.picked = null;
    const any = pictureRows().length > 0;
    fill(see, any ? SEE_PICTURE : null);
    fill(how, any ? howPicture() : null);
    drawPicture(panel);
  });
  return section("The reward as a picture", see, how, grid);
}

function howPicture() {
  return [rewardWords(), ...rewardNotes(), "Without a thought the model can only guess."].join(" ");
}

function rewardWords() {
  const { reward } = settings();
  if (reward === "action_prob_mean")
    return "The reward of a thought is the geometric mean over the action’s tokens.";
  if (reward === "exact_match")
    return "This run’s reward is 1 where the model, after its thought, writes the very action. The picture shows how likely that is.";
  if (reward === "action_prob")
    return "The reward of a thought is the product over the action’s tokens.";
  return `This run’s reward is one of its own, ${clean(reward)}. The picture shows how likely the action is.`;
}

// By what else a reward differs from the number at the right.
function rewardNotes() {
  const notes = [];
  if (settings().reward === "exact_match") return notes;
  if (settings().scored_by === "base") notes.push("The frozen base model reads the action.");
  if (settings().reward_span === "turn")
    notes.push("The reward reads the tags around the action too.");
  return notes;
}

function drawPicture(panel) {
  const rows = pictureRows();
  panel.grid.className = "";
  if (!rows.length) return fill(panel.grid, make("p", { class: "small" }, noPicture()));
  const long = rows[0].action.text.length > FEW_TOKENS;
  panel.grid.className = long ? "pic many" : "pic";
  if (long) panel.picked ??= costliest(rows);
  const heads = long ? longHeads(panel, rows) : shortHeads(rows);
  const parts = (row) => (long ? longParts(panel, row, rows) : shortParts(row, rows));
  return refill(
    panel.grid,
    heads,
    rows.map((row) => [whoCell(row), parts(row), productCell(row)]),
  );
}

function noPicture() {
  if (isRL())
    return "Left out for RL: the world pays an episode, and no expert’s action is scored.";
  return "The probabilities of the action’s tokens were not kept here.";
}

// Best, median and worst thought, and none. A thought that earns nothing whatever comes is no worst.
function pictureRows() {
  const { group, without_thought: none } = theFrame();
  const scored = ranked(group).filter((i) => group[i].action);
  const usable = scored.filter((i) => group[i].usable !== false && group[i].closed !== false);
  const order = usable.length ? usable : scored;
  const places = { best: 0, median: Math.floor((order.length - 1) / 2), worst: order.length - 1 };
  const rows = [];
  for (const [name, place] of Object.entries(places)) {
    const isNew = place === 0 ? name === "best" : name === "worst" || place < order.length - 1;
    if (order.length && isNew)
      rows.push({ name: `${name} thought`, i: order[place], action: group[order[place]].action });
  }
  if (none) rows.push({ name: "no thought", i: null, action: none });
  return rows;
}

// --- the first and the last column ---

function whoCell({ name, i }) {
  if (i === null)
    return make("div", { class: "who" }, name, make("span", {}, "the action at once"));
  const z = theFrame().group[i];
  const here = String(i === chosen());
  return make(
    "div",
    { class: "who" },
    make("button", { "aria-pressed": here, on: { click: () => show("thought", i) } }, name),
    make("span", {}, z.kind ? kindOf(z) : ""),
  );
}

function productCell({ action }) {
  const mean = settings().reward === "action_prob_mean";
  const logp = sum(action.logp) / (mean ? action.logp.length : 1);
  return make("div", { class: "prod", "data-name": productName() }, share(chance(logp)));
}

const productName = () => (settings().reward === "action_prob_mean" ? "mean" : "product");

// The thought itself, in a line above its bars.
function thoughtLine({ i }) {
  return i === null
    ? null
    : make("div", { class: "thought-line" }, text(theFrame().group[i].thought || "(empty)"));
}

// --- a short action: a bar a token ---

const isWide = (rows, k) => rows.some(({ action }) => 1 - chance(action.logp[k]) > SURE);
const widthOf = (rows, k) => (isWide(rows, k) ? "320px" : "80px");
const below = (k) => String(k).replace(/\d/g, (digit) => "₀₁₂₃₄₅₆₇₈₉"[digit]);

function shortHeads(rows) {
  const heads = rows[0].action.text.map((word, k) => {
    const properties = { class: "part key", css: { "--w": widthOf(rows, k) } };
    return make("div", properties, `p(a${below(k + 1)}), the expert’s `, text(word));
  });
  return [
    make("div", { class: "h" }),
    make("div", { class: "h parts" }, heads),
    make("div", { class: "h key right" }, productName()),
  ];
}

function shortParts(row, rows) {
  const { action } = row;
  const bars = action.text.map((word, k) => {
    const properties = {
      class: "part",
      "data-sure": !isWide(rows, k),
      css: { "--w": widthOf(rows, k) },
    };
    const p = chance(action.logp[k]);
    return make("div", properties, stack(action, k), make("span", { class: "num" }, share(p)));
  });
  return make("div", { class: "bars" }, thoughtLine(row), make("div", { class: "parts" }, bars));
}

// One bar: the expert's token in blue, then what else was likely in its place, then the rest.
function stack({ text: words, logp, likely }, k) {
  const p = Math.min(1, chance(logp[k]));
  const rivals = (likely?.[k] ?? []).filter(([word]) => word !== words[k]).slice(0, 5);
  const rest = Math.max(0, 1 - p - sum(rivals.map(([, q]) => q)));
  const said = rivals.slice(0, 3).map(([word, q]) => `, ${clean(word)} ${share(q)}`);
  const pieces = [
    piece(words[k], p, "it"),
    rivals.filter(([, q]) => q > 0.004).map(([word, q]) => piece(word, q, "")),
    rest > 0.01 ? piece("…", rest, "rest") : null,
  ];
  return make(
    "div",
    { class: "stack", role: "img", "aria-label": `${clean(words[k])} ${share(p)}${said.join("")}` },
    pieces,
  );
}

const piece = (word, p, kind) =>
  make("i", { class: kind, css: { flex: `${p} 1 0` } }, p > 0.06 ? clean(word) : "");

// --- a long action: its text, blue by probability, and the bar of one token ---

// The token at which the thoughts differ most: there the reward is decided.
function costliest(rows) {
  const spread = rows[0].action.logp.map((_, k) => {
    const ps = rows.map(({ action }) => chance(action.logp[k]));
    return Math.max(...ps) - Math.min(...ps);
  });
  return spread.indexOf(Math.max(...spread));
}

function longHeads(panel, rows) {
  const { text: words } = rows[0].action;
  return [
    make("div", { class: "h" }),
    make(
      "div",
      { class: "h key" },
      `token ${panel.picked + 1} of ${words.length}, the expert’s `,
      text(words[panel.picked]),
      "; pick another in a line below",
    ),
    make("div", { class: "h key right" }, productName()),
  ];
}

function longParts(panel, row) {
  const { action } = row;
  const p = chance(action.logp[panel.picked]);
  const tokens = action.text.map((word, k) => chip(panel, action, k));
  const chips = arrowKeys(make("div", { class: "chips" }, tokens), { picks: true });
  const bar = make(
    "div",
    { class: "one" },
    stack(action, panel.picked),
    make("span", { class: "num" }, share(p)),
  );
  return make("div", { class: "bars" }, thoughtLine(row), chips, bar);
}

function chip(panel, action, k) {
  const p = chance(action.logp[k]);
  const here = k === panel.picked;
  const click = () => {
    panel.picked = k;
    drawPicture(panel);
  };
  return make(
    "button",
    {
      class: here ? "chip on" : "chip",
      "aria-label": `${clean(action.text[k])} ${share(p)}`,
      "aria-pressed": String(here),
      tabindex: here ? 0 : -1,
      css: { "--k": `${Math.round(46 * p)}%` },
      on: { click },
    },
    tokenWords(action.text[k]),
  );
}
