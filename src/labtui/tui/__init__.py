"""The Textual screens. They watch `LabState` and ask the session; only `commands` imports them."""
