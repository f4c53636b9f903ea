// Pictures from outside: chosen, dropped or pasted.

const KINDS = ["image/png", "image/jpeg", "image/webp", "image/gif", "image/bmp"];

// Calls take(file) with a picture, refuse(sentence) with anything else, while open() holds.
export function takePictures(input, { open, most, take, refuse }) {
  const offer = (files) => {
    const [file] = files;
    if (!file) return;
    if (!KINDS.includes(file.type)) {
      refuse("That is no picture: PNG, JPEG, WebP, GIF and BMP can be read.");
    } else if (file.size > most()) {
      refuse(`That picture is too large: ${Math.floor(most() / 1e6)} MB can be sent.`);
    } else {
      take(file);
    }
  };
  input.addEventListener("change", () => {
    offer(input.files);
    input.value = "";
  });
  document.addEventListener("paste", (event) => {
    if (open()) offer(event.clipboardData?.files ?? []);
  });
  const body = document.body;
  const over = (event) => {
    if (!open() || !event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    body.classList.add("dropping");
  };
  const away = () => body.classList.remove("dropping");
  document.addEventListener("dragover", over);
  document.addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) away();
  });
  document.addEventListener("drop", (event) => {
    if (!open() || !event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    away();
    offer(event.dataTransfer.files);
  });
}
