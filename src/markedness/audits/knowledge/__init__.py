"""Knowledge audit: crawl a model's stereotypes into a graph and measure it (Salinas et al. 2023)."""
