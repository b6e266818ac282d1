(* streams.exe unix|lwt serve|test|ask URL: an interface whose functions pass channels. *)

module Streams = Streams_streams_v1
module Calls = Streams.Calls

let say form = Way.say form
let size = 3_000_000

module Acts (W : Way.S) = struct
  open W
  module Reading = Way.Reading (W)

  let session = ref None
  let node () = Option.get !session

  let kept given =
    let* descriptor, way = Channel.take (node ()) given in
    let ends = ends descriptor in
    let* found = Reading.all ends in
    let* () = close ends in
    return (found, Sapwood.Channel.name way)

  let sent text =
    let* descriptor, given = Channel.make (node ()) in
    let ends = ends descriptor in
    aside (fun () ->
        let* () = write ends text in
        let* () = finish ends in
        let* _ = Reading.all ends in
        close ends);
    return given

  module Server = struct
    include Streams.Streams_skeleton (Rpc)

    let fetch { Calls.Fetch.In.name; times } : Calls.Fetch.response Rpc.io =
      let* bytes = sent (String.concat "" (List.init (Int64.to_int times) (fun _ -> name))) in
      return (Ok { Calls.Fetch.Out.bytes })

    let keep { Calls.Keep.In.bytes } : Calls.Keep.response Rpc.io =
      let* found, way = kept bytes in
      return (Ok { Calls.Keep.Out.size = Int64.of_int (String.length found); way })

    module All = struct
      let echo ({ parts; from; maybe; named } : Calls.All.Echo.In.t) : Calls.All.Echo.response Rpc.io =
        match from with
        | Streams.Types.Source.Text "busy" -> return (Error (`Busy (List.hd parts)))
        | _ -> return (Ok { Calls.All.Echo.Out.parts; from; maybe; named })
    end
  end

  module Served = Streams.Streams_server_dispatcher (Rpc) (Server)
  module Test = Streams.Streams_server_dispatcher (Rpc) (Streams.Streams_test (Rpc))
  module Client = Streams.Client (Rpc)
  module Records = Streams.Record_client (Rpc)

  let serve url interface () =
    let* found = Session.connect url in
    session := Some found;
    let* _ = Session.create found ~queue:"streams" in
    let* () = Session.subscribe found "streams" in
    say "serving";
    Rpc.serve found "streams" [ interface ]

  let ended act =
    attempt act (function
      | Ok said -> return (say "%s" said)
      | Error (Sapwood.Errors.Service { code; _ }) -> return (say "%s" code)
      | Error (Sapwood.Json.Wrong text) -> return (say "wrong: %s" text)
      | Error error -> return (say "%s" (Printexc.to_string error)))

  let edges given : Calls.All.Echo.In.t list =
    let part name : Streams.Types.Part.t = { name; bytes = given } in
    [
      { parts = []; from = Nowhere; maybe = None; named = [] };
      { parts = [ part ""; part "ü" ]; from = Stream given; maybe = Some given; named = [ ("", (1L, given)) ] };
    ]

  let echo rpc (value : Calls.All.Echo.In.t) () =
    let* answer = Records.All.echo rpc value in
    match answer with
    | Ok { parts; from; maybe; named } ->
        let same = { Calls.All.Echo.In.parts; from; maybe; named } = value in
        return (if same then "same" else "differs")
    | Error (`Busy part) -> return (if [ part ] = value.parts then "busy, the same" else "differs")

  let ask url () =
    let* rpc = Rpc.connect url in
    let rpc = Rpc.at rpc ~timeout:60. in
    session := Some (Rpc.session rpc);
    let* () =
      ended (fun () ->
          let* answer = Client.fetch rpc ~name:"a picture" ~times:100_000L () in
          let { Calls.Fetch.Out.bytes } = Result.get_ok answer in
          let* found, way = kept bytes in
          return (Printf.sprintf "fetched %d %s" (String.length found) way))
    in
    let* () =
      ended (fun () ->
          let* bytes = sent (String.make size 'x') in
          let* answer = Client.keep rpc ~bytes () in
          let { Calls.Keep.Out.size; way } = Result.get_ok answer in
          return (Printf.sprintf "kept %Ld %s" size way))
    in
    let given = Sapwood.Channel.sample in
    let part : Streams.Types.Part.t = { name = "x"; bytes = given } in
    let rec each = function
      | [] -> return ()
      | value :: rest ->
          let* () = ended (echo rpc value) in
          each rest
    in
    let* () = each (edges given) in
    let* () = ended (echo rpc { parts = [ part ]; from = Text "busy"; maybe = None; named = [] }) in
    ended (fun () ->
        let* _ = Client.keep rpc ~bytes:{ given with secret = "short" } () in
        return "sent")

  let act () =
    let url = Sys.argv.(3) in
    run
      (match Sys.argv.(2) with
      | "serve" -> serve url Served.interface
      | "test" -> serve url Test.interface
      | "ask" -> ask url
      | other -> failwith other)
end

module Blocking = Acts (Way.Blocking)
module Asynchronous = Acts (Way.Asynchronous)

let () = match Sys.argv.(1) with "unix" -> Blocking.act () | "lwt" -> Asynchronous.act () | other -> failwith other
