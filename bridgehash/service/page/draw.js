// A drawing as a query: strokes on a white square, sent as a PNG image.

const WIDTH = 7; // of the pen, in pixels of the canvas

// Opens the dialog when `open` is clicked; calls accept(file) with the finished drawing.
export function acceptDrawings({ open, dialog, canvas, undo, clear, cancel, form }, accept) {
  const pen = canvas.getContext("2d");
  const search = form.querySelector("[type=submit]");
  const strokes = []; // lists of points
  let pointer = null; // the one that draws

  const redraw = () => {
    pen.fillStyle = "#ffffff";
    pen.fillRect(0, 0, canvas.width, canvas.height);
    pen.strokeStyle = "#000000";
    pen.lineWidth = WIDTH;
    pen.lineCap = pen.lineJoin = "round";
    for (const points of strokes) {
      pen.beginPath();
      pen.moveTo(...points[0]);
      for (const point of points) pen.lineTo(...point);
      pen.stroke();
    }
    for (const button of [undo, clear, search]) button.disabled = strokes.length === 0;
  };
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    const scale = canvas.width / box.width;
    return [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
  };

  canvas.addEventListener("pointerdown", (event) => {
    if (pointer !== null || event.button !== 0) return;
    pointer = event.pointerId;
    canvas.setPointerCapture(pointer);
    strokes.push([place(event)]);
    redraw();
  });
  canvas.addEventListener("pointermove", (event) => {
    if (event.pointerId !== pointer) return;
    strokes.at(-1).push(place(event));
    redraw();
  });
  for (const end of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(end, (event) => {
      if (event.pointerId === pointer) pointer = null;
    });
  }
  open.addEventListener("click", () => {
    redraw();
    dialog.showModal();
  });
  undo.addEventListener("click", () => {
    strokes.pop();
    redraw();
  });
  clear.addEventListener("click", () => {
    strokes.length = 0;
    redraw();
  });
  cancel.addEventListener("click", () => dialog.close());
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    canvas.toBlob((blob) => {
      dialog.close();
      accept(new File([blob], "drawing.png", { type: "image/png" }));
    }, "image/png");
  });
}
