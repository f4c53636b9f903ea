// Images that are chosen, dropped or pasted.

const KINDS = ["image/png", "image/jpeg", "image/webp", "image/gif", "image/bmp"];

// Calls accept(file) for an image and reject(message) for anything else, while enabled() is true.
export function acceptUploads(input, { enabled, maxBytes, accept, reject }) {
  const offer = (files) => {
    const [file] = files;
    if (!file) return;
    if (!KINDS.includes(file.type)) {
      reject("Unsupported file. Use PNG, JPEG, WebP, GIF or BMP.");
    } else if (file.size > maxBytes()) {
      reject(`File too large. The limit is ${Math.floor(maxBytes() / 1e6)} MB.`);
    } else {
      accept(file);
    }
  };
  input.addEventListener("change", () => {
    offer(input.files);
    input.value = "";
  });
  document.addEventListener("paste", (event) => {
    if (enabled()) offer(event.clipboardData?.files ?? []);
  });
  const body = document.body;
  const over = (event) => {
    if (!enabled() || !event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    body.classList.add("dropping");
  };
  const away = () => body.classList.remove("dropping");
  document.addEventListener("dragover", over);
  document.addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) away();
  });
  document.addEventListener("drop", (event) => {
    if (!enabled() || !event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    away();
    offer(event.dataTransfer.files);
  });
}
