import json

import pytest
from support.gateway_bench import GatewayBench, run
from support.wire_server import JSON, Answer, ScriptedWireServer, WireRequest, says

from fluzo.core.errors import ProviderError

KEY = "sk-the-provider-key-1234567890"
STATUSES = (301, 302, 303, 307, 308)
LOCATIONS = {
    "absolute": "http://127.0.0.1:{port}/v1/chat/completions",
    "other host name": "http://localhost:{port}/v1/chat/completions",
    "with secrets": "http://user:hunter22@127.0.0.1:{port}/v1?token=hunter22#hunter22",
    "same origin": "/v1/chat/completions/",
    "relative": "completions/",
    "scheme relative": "//127.0.0.1:{port}/v1",
    "malformed port": "http://127.0.0.1:hunter22/v1",
    "malformed host": "http://[hunter22/v1",
    "control characters": "http://127.0.0.1:{port}/\x7f\x1bhunter22",
    "blanks and bidi": "http://127.0.0.1:{port}/ \u202ehunter22",
    "other scheme": "file:///etc/hunter22",
    "empty": "",
}


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("form", LOCATIONS)
def test_a_redirect_is_one_request_and_its_target_gets_nothing(status: int, form: str) -> None:
    async def scenario() -> None:
        async with ScriptedWireServer(lambda request: says("followed")) as target:
            headers = (*JSON, ("Location", LOCATIONS[form].format(port=target.port)))

            def answer(request: WireRequest) -> Answer:
                return Answer((b"{}",), status, headers)

            async with ScriptedWireServer(answer) as server:
                async with GatewayBench(server.url, authorize=lambda: KEY) as bench:
                    with pytest.raises(ProviderError) as caught:
                        await bench.complete()
                assert (len(server.requests), server.connections) == (1, 1)
            assert (target.requests, target.connections) == ([], 0)
        error = caught.value
        assert (error.code, error.retry, error.detail["status"]) == ("redirect_blocked", "never", status)
        assert "hunter22" not in json.dumps(error.to_json())
        assert KEY not in json.dumps(error.to_json())
        assert (bench.sleep.seconds, bench.deltas, bench.occupied()) == ([], [], (0, 0))

    run(scenario)


@pytest.mark.parametrize("status", [300, 304, 399])
def test_every_other_answer_of_that_class_is_refused_too_without_a_location(status: int) -> None:
    async def scenario() -> None:
        async with ScriptedWireServer([Answer((), status, ())]) as server, GatewayBench(server.url) as bench:
            with pytest.raises(ProviderError) as caught:
                await bench.complete()
            assert (caught.value.code, len(server.requests)) == ("redirect_blocked", 1)

    run(scenario)
