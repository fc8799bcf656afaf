"""The Textual screens. They watch `LabState` and ask the session; nobody imports them but the door."""
