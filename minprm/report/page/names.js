// How things are named: metrics with their meaning as a tooltip, runs, stages, and counts of things.

// --- the glossary, as tooltips ---

function glossaryOf(name) {
  const glossary = DATA.glossary ?? {};
  return Object.hasOwn(glossary, name) ? glossary[name] : null;
}

let tips = 0;

// The name of a metric. Hover, focus or tap says what it is and what it looks like when broken.
function metricName(name) {
  if (!glossaryOf(name)) return make("span", { class: "metric" }, clean(name));
  const button = make("button", { class: "meaning" }, clean(name));
  return explained(button, name, button);
}

// Puts the tooltip of a metric beside what is shown. `focused`: the part of it that takes the focus.
function explained(shown, name, focused) {
  const entry = glossaryOf(name);
  if (!entry) return make("span", { class: "metric" }, shown);
  tips += 1;
  const tip = make(
    "span",
    { role: "tooltip", class: "tip", id: `tip-${tips}` },
    make("span", {}, clean(entry.what)),
    entry.broken ? make("span", { class: "broken" }, "broken: ", clean(entry.broken)) : null,
  );
  focused.setAttribute("aria-describedby", tip.id);
  const box = make("span", { class: "metric" }, shown, tip);
  for (const event of ["pointerenter", "focusin", "click"]) box.addEventListener(event, placeTips);
  for (const event of ["pointerleave", "focusout"]) {
    box.addEventListener(event, () => box.classList.remove("quiet"));
  }
  return box;
}

const OPEN_TIPS = ".metric:hover, .metric:focus-within";

// Moves an open tooltip under its name, or above it, inside the window. CSS opens and closes it.
function placeTips() {
  for (const box of document.querySelectorAll(OPEN_TIPS)) {
    const tip = box.querySelector(".tip");
    if (!tip) continue;
    const name = box.getBoundingClientRect();
    const size = tip.getBoundingClientRect();
    const room = document.documentElement.clientWidth - size.width - 12;
    const below = name.bottom + 3;
    const above = name.top - size.height - 3;
    tip.style.left = `${Math.max(12, Math.min(name.left, room))}px`;
    tip.style.top = `${below + size.height < innerHeight || above < 0 ? below : above}px`;
  }
}

addEventListener("scroll", placeTips, { passive: true });
addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const box of document.querySelectorAll(OPEN_TIPS)) box.classList.add("quiet");
});

// --- words ---

const runName = (run) => clean(DATA.runs[run]?.name ?? `run ${run}`);
// A run's world with what it was made by: the same task in another one is another task.
const worldOf = (run) => JSON.stringify([run?.world, run?.knobs?.world_args, run?.knobs?.split]);
// A long name may break after _, : and +.
const breakable = (name) =>
  clean(name)
    .split(/(?<=[_:+])/)
    .flatMap((part, i) => (i ? [make("wbr"), part] : [part]));
const plural = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;
// What a turn did; all of it where no action can be read.
const didOf = (turn) =>
  turn.action || (turn.unreadable ? `(unreadable) ${turn.unreadable}` : "(no action)");

// A stage is known by all stages up to it: act_prm+relabel+sft:thoughts
const stageName = (stage) => clean(stage.split("+").at(-1));
const stageBefore = (stage) => clean(stage.split("+").slice(0, -1).join(", "));
const stageWords = (stage) =>
  stageName(stage) + (stageBefore(stage) ? ` after ${stageBefore(stage)}` : "");
const methodOf = (stage) => stage.split("+").at(-1).split(":")[0];
