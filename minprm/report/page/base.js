"use strict";
// What all panels use: the data, elements, choices, numbers, and which look is on view.
// Text of a model is only ever put into the page by `text`, as text, never as HTML.

const DATA = JSON.parse(document.getElementById("data").textContent);
const CALM = matchMedia("(prefers-reduced-motion: reduce)");

const known = (x) => x !== null && x !== undefined;
const unique = (list) => [...new Set(list)];

// --- elements ---

// Characters that a browser obeys or hides: control, format, fillers, tags, and halves of a pair.
const HIDDEN = new RegExp(
  "[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u034f\\u061c\\u115f\\u1160\\u180b-\\u180f" +
    "\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u3164\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff9-\\ufffb]" +
    "|\\udb40[\\udc00-\\udfff]|[\\ud800-\\udbff](?![\\udc00-\\udfff])|(?<![\\ud800-\\udbff])[\\udc00-\\udfff]",
  "g",
);

// A text that somebody else wrote, with such characters named: ⟨U+202E⟩.
function clean(words) {
  return String(words ?? "").replace(HIDDEN, (letter) => {
    const code = letter.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    return `⟨U+${code}⟩`;
  });
}

// make("p", { class: "small" }, "words"): an element; "svg:path" is one of a drawing. `on` holds
// listeners, `css` style properties. Children are elements, texts, lists of them, or null.
function make(tag, properties = {}, ...children) {
  const name = tag.replace("svg:", "");
  const drawn = tag.startsWith("svg:");
  const element = drawn
    ? document.createElementNS("http://www.w3.org/2000/svg", name)
    : document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (!known(value) || value === false) continue;
    if (key === "on") {
      for (const [event, listener] of Object.entries(value))
        element.addEventListener(event, listener);
    } else if (key === "css") {
      for (const [property, v] of Object.entries(value)) element.style.setProperty(property, v);
    } else {
      element.setAttribute(key, value === true ? "" : value);
    }
  }
  return fill(element, ...children);
}

// Replaces what an element holds.
function fill(element, ...children) {
  const given = children.flat(9).filter((child) => known(child) && child !== false);
  element.replaceChildren(...given);
  return element;
}

// A text of a model, a world or a file.
function text(words, style = "") {
  return make("span", { class: `text ${style}` }, clean(words));
}

// The same, folded where it is long: its beginning, and all of it when it is opened.
function longText(words, limit = 400) {
  const all = String(words ?? "");
  if (all.length <= limit) return text(all);
  const length = `… ${all.length.toLocaleString("en")} characters`;
  const start = all.slice(0, 100).trimEnd();
  const summary = make("summary", {}, text(start), make("span", { class: "key" }, length));
  return make("details", { class: "long" }, summary, text(all));
}

// A drawing of a button, from one path in a square of 12.
function icon(d) {
  const path = make("svg:path", { d });
  return make("svg:svg", { viewBox: "0 0 12 12", "aria-hidden": "true" }, path);
}

// --- what is chosen by a click or by a key ---

// One of several: buttons in a row, or a list where they are many. `options` are [value, label, off].
function choice(label, options, chosen, pick) {
  const show = options.length > 3 ? choiceList : choiceRow;
  return show(label, options, chosen, pick);
}

function choiceRow(label, options, chosen, pick) {
  const buttons = options.map(([value, words, off]) => {
    const pressed = String(value === chosen);
    const on = { click: () => pick(value) };
    return make("button", { "aria-pressed": pressed, disabled: off, on }, words);
  });
  return make("div", { class: "pick", role: "group", "aria-label": label }, buttons);
}

function choiceList(label, options, chosen, pick) {
  const items = options.map(([, words]) => make("option", {}, words));
  const list = make("select", { "aria-label": label }, items);
  list.selectedIndex = options.findIndex(([value]) => value === chosen);
  list.addEventListener("change", () => pick(options[list.selectedIndex][0]));
  return list;
}

// What a choice does: it sets a value of a panel, and draws the panel.
const setter = (panel, key, draw) => (value) => {
  panel[key] = value;
  draw();
};

// Replaces what an element holds, and keeps the focus on what stands in the place of what had it.
function refill(element, ...children) {
  const controls = () => [...element.querySelectorAll("button, select, input, svg[tabindex]")];
  const place = controls().indexOf(document.activeElement);
  fill(element, ...children);
  if (place >= 0) controls()[place]?.focus({ preventScroll: true });
}

// Many buttons, one stop for Tab: arrow keys, Home and End move the focus from one to another.
// `among`: which buttons. `picks`: the focus also chooses, as in a group of radio buttons.
function arrowKeys(box, { among = "button", keys = ["ArrowLeft", "ArrowRight"], picks } = {}) {
  box.addEventListener("keydown", (event) => {
    const buttons = [...box.querySelectorAll(among)];
    const here = buttons.indexOf(document.activeElement);
    const last = buttons.length - 1;
    const [back, forth] = keys;
    const places = { [back]: here - 1, [forth]: here + 1, Home: 0, End: last };
    if (here < 0 || !Object.hasOwn(places, event.key)) return;
    event.preventDefault();
    const next = buttons.at(places[event.key] % buttons.length); // from the last one to the first
    next.focus();
    if (picks) next.click();
  });
  return box;
}

// Calls draw now that the box has a width, and whenever the width changes.
function whenSized(box, draw) {
  let width = 0;
  new ResizeObserver(() => {
    if (box.clientWidth === width) return;
    width = box.clientWidth;
    draw();
  }).observe(box);
}

// One panel: at the left its title, what to see, how to read it; at the right the figure.
function section(title, see, how, ...figure) {
  const words = [make("h2", {}, title), make("p", { class: "see" }, see)];
  if (how) words.push(make("p", {}, how));
  return make("section", {}, make("div", { class: "say" }, words), make("div", {}, figure));
}

// --- numbers ---

const MINUS = "−";

// A share as the book writes it: .187, 1.00, < .001
function share(x) {
  if (!known(x)) return "–";
  if (x < 0) return MINUS + share(-x);
  if (x > 0 && x < 0.0005) return "< .001";
  if (x < 1 && x >= 0.9995) return "> .999";
  return x >= 1 ? x.toFixed(2) : x.toFixed(3).replace(/^0/, "");
}

function number(x, digits = 2) {
  if (!known(x)) return "–";
  const shown = Math.abs(x).toFixed(digits);
  return (x < 0 && +shown ? MINUS : "") + shown;
}

const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
const mean = (numbers) => sum(numbers) / numbers.length;
const chance = (logp) => (known(logp) ? Math.exp(logp) : null);

// --- what is on view: one choice for all panels that show a group ---

const VIEW = { look: 0, state: 0, frame: 0, thought: null, token: null, advantage: null };
const listeners = [];

// Draws again what shows a group. `what` names what has changed: look, state, frame, thought, token,
// advantage.
function changed(what) {
  if (DATA.looks.length) settle(what);
  for (const listener of listeners) listener(what);
}

// show("frame", 3): what a click does.
function show(what, value) {
  VIEW[what] = value;
  changed(what);
}

// What was chosen inside what has changed is forgotten: a token of another thought is another token.
function settle(what) {
  if (what === "look") VIEW.advantage = null;
  if (what === "look" || what === "state") VIEW.thought = null;
  if (what !== "token") VIEW.token = null;
  VIEW.state = Math.min(VIEW.state, theLook().states.length - 1);
  VIEW.frame = Math.min(VIEW.frame, theState().frames.length - 1);
}

// The group of the first state in which the best reward stands out most: there one sees what is
// selected.
function selective() {
  const leads = theLook().states[0].frames.map(({ group }) => {
    const rewards = group.map((z) => z.reward ?? 0);
    return rewards.length ? Math.max(...rewards) - mean(rewards) : 0;
  });
  return leads.indexOf(Math.max(...leads));
}

const theLook = () => DATA.looks[VIEW.look];
const theState = () => theLook().states[VIEW.state];
const theFrame = () => theState().frames[VIEW.frame];
