// The state of the page in its address: #EXAMPLE&KNOB=SETTING&A.KNOB=SETTING. Knobs at the
// example's own setting are left out. Whatever an address holds is only compared with known words.

const LONGEST = 4000;

/** Reads the name of an example and its settings by knob; `wrong` says what cannot be. */
export function read(hash) {
  const [name, ...pairs] = hash.replace(/^#/, "").slice(0, LONGEST).split("&");
  const found = { name, settings: new Map(), pinned: null };
  for (const pair of pairs) {
    const [key, value = ""] = pair.split("=").map(plain);
    if (key.startsWith("A.") || key === "A") {
      found.pinned ??= new Map();
      if (key !== "A") found.pinned.set(key.slice(2), value);
    } else if (key) {
      found.settings.set(key, value);
    }
  }
  return found;
}

function plain(text) {
  try {
    return decodeURIComponent(text.replaceAll("+", " "));
  } catch {
    return text;
  }
}

/** The settings of an example by number, and one line about what the example does not have. */
export function placed(example, settings) {
  const at = [...example.own];
  const unknown = [];
  for (const [name, text] of settings) {
    const number = example.knobs.findIndex((knob) => knob.name === name);
    const setting = example.knobs[number]?.settings.findIndex((each) => each.text === text) ?? -1;
    if (setting < 0) unknown.push(`${name} = ${text}`.slice(0, 60));
    else at[number] = setting;
  }
  const wrong = unknown.length ? `The link sets what this example does not have: ${unknown[0]}` : "";
  return { at, wrong };
}

/** The address of settings. */
export function written(example, settings, pinned) {
  const words = (at, before) =>
    example.knobs.flatMap((knob, number) =>
      at[number] === example.own[number]
        ? []
        : [`${before}${encodeURIComponent(knob.name)}=${encodeURIComponent(knob.settings[at[number]].text)}`],
    );
  const all = [example.name, ...words(settings, "")];
  if (pinned) all.push("A", ...words(pinned, "A."));
  return `#${all.join("&")}`;
}
