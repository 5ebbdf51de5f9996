"""From stimuli to prompts."""
