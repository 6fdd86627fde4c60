"use strict";

const token = document.getElementById("token");

// quoted is a text in single quotes, as shells read it.
const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

function curlOf(form) {
  const lines = [`curl ${location.origin}${form.dataset.path}`, "-H 'Content-Type: application/json'"];
  if (token.value) lines.push("-H 'Authorization: Bearer TOKEN'"); // the token itself stays out of what is copied
  lines.push(`-d ${quoted(form.querySelector("textarea").value)}`);
  return lines.join(" \\\n  ");
}

async function call(form) {
  const headers = { "Content-Type": "application/json" };
  if (token.value) headers.Authorization = `Bearer ${token.value}`;
  const answer = await fetch(form.dataset.path, { method: "POST", headers, body: form.querySelector("textarea").value });
  const text = await answer.text();
  try {
    return `${answer.status}\n${JSON.stringify(JSON.parse(text), null, 2)}`;
  } catch {
    return `${answer.status}\n${text}`;
  }
}

const forms = [...document.querySelectorAll("form")];
const show = (changed) => changed.forEach((form) => { form.querySelector(".curl").textContent = curlOf(form); });

for (const form of forms) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const output = form.querySelector("output");
    output.textContent = "…";
    try {
      output.textContent = await call(form);
    } catch (err) {
      output.textContent = `There is no answer: ${err.message}`;
    }
  });
  form.querySelector(".copy").addEventListener("click", () => navigator.clipboard.writeText(curlOf(form)));
}
document.addEventListener("input", (event) => show(event.target.form ? [event.target.form] : forms)); // the token is in each
show(forms);
