// Traces that a visitor opens: read here, checked by the server, kept beside the live runs, shown.

// `isBusy()` whether a run has the stage; `ask()` names what is opened, `isAsked(id)` whether nothing else
// was asked for since; `show(envelope, name)` puts it on the stage.
function makeFiles({ settings, server, runs, say, isBusy, ask, isAsked, show }) {
  async function open(file) {
    if (isBusy()) return undefined;
    const { name } = file;
    say(["page.reading", { name }]);
    const run = ask();
    try {
      const text = await readTraceFile(file, settings.maxImport);
      if (text === null)
        return say(["page.import_too_big", { name, megabytes: Math.round(settings.maxImport / 1e6) }], true);
      const answer = await server.import_trace({ text, name, run });
      if (isBusy()) return say("");
      if (!isAsked(run)) return undefined;
      if (!answer) return say(["page.server_gone", {}], true);
      const envelope = JSON.parse(answer);
      const refusal = envelope.items.find((item) => item.kind === "failure");
      if (refusal) return say(refusal.message, true);
      say(envelope.note || "");
      runs.addFile(envelope, name);
      return show(envelope, name);
    } catch {
      return say(["page.import_unreadable", { name }], true);
    }
  }

  return { open };
}
