// Shows who is signed in on pages that the gateway serves to everyone, by asking the gateway itself.
const place = document.querySelector("[data-session]");
if (place) {
  fetch("/auth/session", { headers: { accept: "application/json" } })
    .then((answer) => (answer.ok ? answer.json() : null))
    .then((session) => {
      if (!session) return;
      place.querySelector("[data-signed-out]").hidden = true;
      place.querySelector("[data-signed-in]").hidden = false;
      place.querySelector("[data-name]").textContent = session.email || session.subject;
    })
    .catch(() => undefined);
}
