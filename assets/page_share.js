// Links and files: what a link holds, how it is copied, how a file is saved and read. No layout.

const LONGEST_LINK = 8000; // characters; longer ones are cut by mail and chat programs

function encodeLink(state) {
  const bytes = new TextEncoder().encode(JSON.stringify(state));
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

// What a link holds, or null for anything that is none. It comes from strangers: nothing in it is
// trusted; a recipe is checked by the server, a place by the stage.
function decodeLink(text) {
  try {
    if (!text || text.length > 4 * LONGEST_LINK) return null;
    const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = Uint8Array.from(binary, (character) => character.charCodeAt(0));
    const state = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
    return state && typeof state === "object" && state.v === 1 ? state : null;
  } catch {
    return null;
  }
}

// The page's own address, not that of a frame around it. The state stands behind "#": it is not
// sent to any server, and no server need remember it.
function linkTo(state, query) {
  const link = location.origin + location.pathname + (query ? "?" + query : "");
  return link + "#run=" + encodeLink(state);
}

function linkState() {
  return decodeLink(new URLSearchParams(location.hash.slice(1)).get("run"));
}

// True if the text is on the clipboard now. A frame may forbid the first way, a browser the second.
async function copyText(text, box) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    box.hidden = false;
    box.value = text;
    box.focus({ preventScroll: true });
    box.select();
    return document.execCommand("copy");
  }
}

function saveFile(name, content, type) {
  const blob = content instanceof Blob ? content : new Blob([content], { type });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// A trace file's text, unpacked if need be; null if it has more than `most` characters.
async function readTraceFile(file, most) {
  if (file.size > most) return null;
  const head = new Uint8Array(await file.slice(0, 2).arrayBuffer());
  const isPacked = head[0] === 0x1f && head[1] === 0x8b;
  const stream = isPacked ? file.stream().pipeThrough(new DecompressionStream("gzip")) : file.stream();
  const reader = stream.getReader();
  const decoder = new TextDecoder("utf-8");
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text + decoder.decode();
    text += decoder.decode(value, { stream: true });
    if (text.length > most) {
      reader.cancel();
      return null;
    }
  }
}
