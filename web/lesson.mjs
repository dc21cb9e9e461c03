// Lessons: each step asks for a prediction, and only then runs and shows the answer. A lesson is one
// file, lesson-NAME.json; tests play every step and compare the run with what the step expects.

const made = (tag, text = "") => {
  const element = document.createElement(tag);
  element.textContent = text;
  return element;
};

/**
 * Shows a lesson in an element.
 * @param {HTMLElement} box
 * @param {object} lesson  a file's content
 * @param {() => void} ask  takes away the answer of a run, before each question
 * @param {(settings: Record<string, string>) => void} run  runs settings by knob, others as they are
 */
export function teach(box, lesson, ask, run) {
  let number = 0;
  const show = () => {
    ask();
    const step = lesson.steps[number];
    const form = document.createElement("form");
    const question = made("fieldset");
    question.append(made("legend", step.question), ...step.choices.map(choice));
    const answer = made("button", "Run it");
    answer.disabled = true;
    form.append(question, answer);
    form.addEventListener("change", () => {
      answer.disabled = false;
    });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const chosen = Number(new FormData(form).get("choice"));
      question.disabled = true;
      answer.remove();
      run(step.settings);
      const verdict = made("p", chosen === step.right ? "You predicted it." : "It is otherwise.");
      verdict.className = "verdict";
      verdict.setAttribute("role", "status");
      form.append(verdict, made("p", `${step.choices[step.right]}. ${step.after}`), next());
    });
    const count = `${number + 1} of ${lesson.steps.length}`;
    box.replaceChildren(made("h2", `${lesson.title} (${count})`), made("p", step.text), form);
  };
  const next = () => {
    if (number + 1 === lesson.steps.length) return made("p", "That was the lesson. Turn the knobs.");
    const button = made("button", "Next");
    button.type = "button";
    button.addEventListener("click", () => {
      number += 1;
      show();
    });
    return button;
  };
  show();
}

function choice(text, number) {
  const label = made("label");
  const input = document.createElement("input");
  Object.assign(input, { type: "radio", name: "choice", value: number, required: true });
  label.append(input, text);
  return label;
}
