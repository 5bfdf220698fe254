// Puts the page together: its header, the bar, and the panels in the order in which one learns.

function start() {
  document.title = `${clean(DATA.runs.map((run) => run.name).join(", "))} · minprm report`;
  listeners.push((what) => {
    if (what === "look") fill(document.getElementById("top"), header());
  });
  const looks = DATA.looks.length
    ? [bar(), groupPanel(), tokensPanel(), picturePanel()]
    : noLooks();
  const bound = make("div", { class: "bound" }, looks, ownPanel("curvesPanel"));
  const others = ["ladderPanel", "episodesPanel", "treePanel"].map(ownPanel);
  fill(document.getElementById("page"), bound, others);
  fill(document.getElementById("foot"), ownPanel("footPanel"));
  if (DATA.looks.length) VIEW.frame = selective();
  changed("look");
}

// A panel by the name of its function; null where the data has nothing for it.
const ownPanel = (name) => globalThis[name]?.() ?? null;

function noLooks() {
  return section(
    "No groups were recorded",
    "Stages of Act-PRM and of RL record groups for this page. This run has no such stage yet, or it was told --watch 0.",
    null,
  );
}

// --- the header ---

function header() {
  const names = DATA.runs.map((run) =>
    [run.name, run.world, run.model, run.unfinished].filter(Boolean).map(clean).join(" · "),
  );
  const about = unique(DATA.runs.map((run) => run.about).filter(Boolean));
  return [
    names.map((name) => make("div", { class: "over" }, `minprm report · ${name}`)),
    make("h1", {}, headline()),
    DATA.looks.length ? [lead(), steps(), counted()] : null,
    about.map((words) => make("p", { class: "small" }, clean(words))),
  ];
}

function headline() {
  if (!DATA.looks.length) return "What this run left to look at";
  const last = theLook().states[0].frames.at(-1).update;
  const what = isRL() ? "to how it plays" : "to the model’s thoughts";
  const updates = last === 1 ? "one update" : plural(last, "update");
  return last ? `What ${updates} did ${what}` : "A group before the first update";
}

function lead() {
  const why = isRL()
    ? "A world pays for what is done, not for what is thought. So the model tries each task several times, and what was paid better is reinforced. One update takes four steps."
    : "The log says what an expert did, and not why. So for each logged step the model writes several guesses at the why. They are called thoughts, and those that make the expert’s action likely are reinforced. One update takes four steps.";
  return make("p", { class: "lead" }, why);
}

function steps() {
  const items = isRL() ? stepsOfRL() : stepsOfActPRM();
  const list = items.map(([name, words]) =>
    make("li", {}, make("b", {}, name), make("span", {}, words)),
  );
  return make("ol", { class: "steps" }, list);
}

function stepsOfActPRM() {
  const size = theFrame().group.length;
  const rewards = {
    action_prob:
      "A thought earns r(z) = p(a | s, z): how likely the expert’s action a is after it.",
    action_prob_mean:
      "A thought earns r(z): how likely each token of the expert’s action is after it, on (geometric) average.",
    exact_match:
      "A thought earns 1 if the model, after it, writes the expert’s action, and else 0.",
  };
  const { reward } = settings();
  const own = `A thought earns r(z), by ${clean(reward)}: how well it predicts the expert’s action.`;
  return [
    ["Think", `The model writes a group of ${size} thoughts z for one logged state s.`],
    ["Score", Object.hasOwn(rewards, reward) ? rewards[reward] : own],
    ["Credit", creditOfActPRM()],
    [
      "Update",
      "A large A makes the tokens of a thought likelier, a negative one less likely. The next group shows it.",
    ],
  ];
}

// By whole paths or by one step: how rewards become advantages.
function creditOfActPRM() {
  const ends = {
    resample:
      "Paths of thoughts are drawn anew after each step, in proportion to r. A counts those that, at the end of the log, descend from a thought.",
    own: "The rewards of a path from this step to its end, compared within the group, become advantages A: how strongly to repeat each thought.",
  };
  const { continues } = settings();
  return Object.hasOwn(ends, continues)
    ? ends[continues]
    : "The rewards of the group become advantages A: how strongly to repeat each thought.";
}

const COMPARED =
  "The rewards of the group become advantages A: how strongly to repeat each episode.";
const CRITICISED =
  "A critic guesses what is still to come. What comes beyond its guess is the advantage A: how strongly to repeat each token.";

function stepsOfRL() {
  const size = theFrame().group.length;
  return [
    ["Play", `The model plays one task ${size} times, thinking before it acts. That is a group.`],
    ["Score", "The world pays each episode a reward r."],
    ["Credit", hasCritic() ? CRITICISED : COMPARED],
    [
      "Update",
      "By its A, each token that was drawn is made likelier or less likely. The next group shows it.",
    ],
  ];
}

// The first and the last groups, counted: no word here is fixed but the form. Act-PRM watches one
// state again and again; RL plays other tasks at each look, so there all groups are counted.
function counted() {
  const { states } = theLook();
  const watched = isRL() ? states : [states[0]];
  const { frames } = states[0];
  if (frames.length < 2) return null;
  const [first, last] = [frames[0], frames.at(-1)].map(({ update }) => [
    shareOfGood(watched, update),
    update,
  ]);
  const what = isRL() ? "episodes are won" : "thoughts earn more than one half";
  const where = isRL()
    ? "In the groups below, each of another task"
    : `In the first state below (${stateName(states[0], states)})`;
  const words = `${where}, ${first[0]} ${what} after ${first[1]} updates, and ${last[0]} after ${last[1]}.`;
  const means = [frames[0], frames.at(-1)].map(({ group }) =>
    share(mean(group.map((z) => z.reward))),
  );
  const rise = isRL() ? "" : ` Their mean reward goes from ${means[0]} to ${means[1]}.`;
  return make("p", {}, words + rise);
}

// "3 of 24": how many of the groups of these states before this update are good.
function shareOfGood(states, update) {
  const frames = states.flatMap((state) => state.frames);
  const all = frames.filter((frame) => frame.update === update).flatMap(({ group }) => group);
  return `${all.filter(good).length} of ${all.length}`;
}

start();
