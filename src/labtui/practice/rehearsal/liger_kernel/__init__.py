"""As much of liger-kernel as the course's benchmark of language models uses."""
