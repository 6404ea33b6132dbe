ARG NODE
FROM $NODE
# As in the official one, /prometheus belongs to nobody: a tmpfs over it takes its mode and not its owner.
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends prometheus wget >/dev/null && \
    rm -rf /var/lib/apt/lists/* && mkdir -p /prometheus && chown nobody:nogroup /prometheus && chmod 775 /prometheus
USER nobody
WORKDIR /prometheus
ENTRYPOINT ["/usr/bin/prometheus"]
