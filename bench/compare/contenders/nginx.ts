interface NginxOptions {
  port: number
  upstreamPort: number
  /** Where the paths begin whose answers it keeps. */
  cached: string
}

/** One worker, kept connections on both sides, no access log. With proxy_cache_lock, callers of a cold key share one call. */
export function nginxConfig({ port, upstreamPort, cached }: NginxOptions): string {
  // Otherwise its worker would drop root's rights and could not use its directory.
  const user = process.getuid?.() === 0 ? 'user root;\n' : ''
  return `${user}daemon off;
worker_processes 1;
pid nginx.pid;
error_log stderr warn;
events { worker_connections 4096; }
http {
  access_log off;
  keepalive_requests 1000000000;
  keepalive_timeout 65s;
  client_body_buffer_size 128k;
  client_body_temp_path body;
  proxy_temp_path proxy;
  fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
  proxy_cache_path cache keys_zone=quotes:64m inactive=24h max_size=256m;
  upstream api {
    server 127.0.0.1:${upstreamPort};
    keepalive 128;
    keepalive_requests 1000000000;
  }
  server {
    listen 127.0.0.1:${port} backlog=4096;
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    location ${cached} {
      proxy_pass http://api;
      proxy_cache quotes;
      proxy_cache_key $request_uri$http_app_name;
      proxy_cache_lock on;
    }
    location / { proxy_pass http://api; }
  }
}
`
}
