ARG NODE
FROM $NODE
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends valkey-server valkey-tools >/dev/null && rm -rf /var/lib/apt/lists/*
# The official one is built with the protected mode off.
RUN printf '#!/bin/sh\nexec /usr/bin/valkey-server "$@" --protected-mode no\n' >/usr/local/bin/valkey-server && \
    chmod +x /usr/local/bin/valkey-server
