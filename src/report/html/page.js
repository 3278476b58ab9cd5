// Copies the text that a button names; where that is not allowed, selects it. Without this script there are no buttons.
for (const button of document.querySelectorAll("button[data-copies]")) {
  const text = document.getElementById(button.dataset.copies);
  const say = (word) => {
    button.textContent = word;
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  };
  const select = () => {
    getSelection().selectAllChildren(text);
    let copied = false;
    try { copied = document.execCommand("copy"); } catch { copied = false; }
    say(copied ? "Copied" : "Selected");
  };
  button.hidden = false;
  button.addEventListener("click", () => {
    if (navigator.clipboard) {
      navigator.clipboard.writeText(text.textContent).then(() => say("Copied"), select);
    } else {
      select();
    }
  });
}
