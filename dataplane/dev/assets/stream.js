// Lists the events of the stream as they arrive through the gateway.
const list = document.querySelector("[data-events]");
const state = document.querySelector("[data-state]");
const source = new EventSource("/events");
const kept = 12;

source.addEventListener("open", () => {
  state.textContent = "Connected.";
});
source.addEventListener("tick", (event) => {
  const tick = JSON.parse(event.data);
  const item = document.createElement("li");
  item.textContent = `Event ${tick.number} for ${tick.subject}, sent ${tick.sentAt}`;
  list.append(item);
  while (list.children.length > kept) list.firstElementChild.remove();
});
source.addEventListener("error", () => {
  state.textContent = source.readyState === EventSource.CLOSED ? "The stream was refused." : "Reconnecting…";
});
