ARG NODE
FROM $NODE
# As in the official one, /prometheus belongs to nobody: a tmpfs over it takes its mode and not its owner.
RUN apt-get update -qq && \
    apt-get install -y -qq --no-install-recommends valkey-server valkey-tools prometheus wget >/dev/null && \
    rm -rf /var/lib/apt/lists/* && install -d -o nobody -g nogroup -m 775 /prometheus
# The official Valkey is built with the protected mode off.
RUN printf '#!/bin/sh\ncase "$1" in valkey-server) exec "$@" --protected-mode no ;; *) exec prometheus "$@" ;; esac\n' \
    >/usr/local/bin/start && chmod +x /usr/local/bin/start
USER nobody
WORKDIR /prometheus
ENTRYPOINT ["/usr/local/bin/start"]
